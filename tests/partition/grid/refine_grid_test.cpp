// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/refine_grid.hpp>  // first: proves it is self-contained

#include "../../support/grid_oracle.hpp"
#include "../../support/naive_grids.hpp"
#include "../../support/test.hpp"
#include "../../support/trials.hpp"

#include <ballast/partition/grid/fill_slots.hpp>
#include <ballast/partition/grid/partition_grid.hpp>

namespace refined_grids {

using namespace ballast;
using namespace ballast_test;

static_assert(grid_policy<refine_grid<>>);
static_assert(grid_policy<refine_grid<refine_grid<>>>);

TEST(RefineGrid, IsNotAboveItsInnerPolicyNorTheNaiveLines)  // Ensures (1) (2) (3)
{
  random_source random(46);
  int above = 0;
  int better = 0;
  for (int trial = 0; trial < trials_of(100); ++trial) {
    grid_instance step;
    step.ranks = 2 + random.below(4);
    step.slots = 1 + random.below(4);
    std::size_t const count = random.below(12 * step.ranks);
    for (std::size_t i = 0; i < count; ++i) {
      step.weights.push_back(random.below(5) == 0 ? random.between(500, 1000)
                                                  : random.between(1, 300));
    }
    step.costs = step.weights;
    step.meet = trial % 2 == 0 ? grid_meeting::step : grid_meeting::microbatch;
    step.caps.assign(step.ranks, 1500);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const plan = [&](auto const& policy) {
      return partition_grid(step.weights, step.ranks, step.options(), policy, std::identity{});
    };
    auto const naive = naive_grid(step.weights, step.ranks, step.slots, 1500);
    auto const greedy = plan(fill_slots{});
    auto const refined = plan(refine_grid{});
    ASSERT_EQ(greedy.has_value(), refined.has_value());
    bool const naive_plans = naive.step != grid_makespans{}.step;
    if (!refined) {
      EXPECT_FALSE(naive_plans);
      continue;
    }
    expect_valid_grid(*refined, step);
    EXPECT_LE(refined->makespan, greedy->makespan);
    EXPECT_EQ(plan(refine_grid{fill_slots{}, 0})->owner, greedy->owner);
    better += refined->makespan < greedy->makespan ? 1 : 0;
    auto const theirs = step.meet == grid_meeting::step ? naive.step : naive.microbatch;
    above += refined->makespan > theirs ? 1 : 0;
  }
  EXPECT_GT(better, trials_of(10));
  EXPECT_LE(above, 2);
}

TEST(RefineGrid, SwapsAcrossSlotsOfARank)
{
  // 7 + 1 and 5 + 1 of a rank against 6 + 2 and 6 + 2: sums of 14 and 16, and then 15 and 15.
  std::vector<std::int64_t> const lengths{7, 5, 1, 1, 6, 6, 2, 2};
  auto const plan = partition_grid(lengths, 2, {.microbatches = 2, .most_weight = 8}, refine_grid{},
                                   std::identity{})
                        .value();
  EXPECT_EQ(plan.makespan, 15);
  EXPECT_TRUE(plan.proven_optimal());
}

}  // namespace refined_grids
