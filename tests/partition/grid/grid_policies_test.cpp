// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/fill_slots.hpp>  // first: proves it is self-contained

#include "../../support/grid_oracle.hpp"
#include "../../support/naive_grids.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/grid/grid_lower_bound.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/grid/refine_grid.hpp>

namespace grid_policies {

using namespace ballast;
using namespace ballast_test;

static_assert(grid_policy<fill_slots>);

TEST(FillSlots, KeepsToEveryConstraint)  // Ensures (1)
{
  random_source random(47);
  int planned = 0;
  for (int trial = 0; trial < trials_of(600); ++trial) {
    auto const step = random_grid(random, 24);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    for (fill_slots const policy : {fill_slots{}, fill_slots{1, 0}}) {
      auto const plan = partition_grid(step.samples(), step.ranks, step.options(), policy,
                                       &grid_sample::cost, &grid_sample::weight);
      if (!plan) { continue; }
      expect_valid_grid(*plan, step);
      ++planned;
    }
  }
  EXPECT_GT(planned, trials_of(270));
}

TEST(FillSlots, PutsLongSamplesInOneSlot)  // Ensures (2)
{
  std::vector<std::int64_t> const lengths{90, 10, 88, 11, 12, 9};
  grid_options options{.microbatches = 2, .meet = grid_meeting::microbatch};
  auto const plan = partition_grid(lengths, 2, options, fill_slots{}, std::identity{}).value();
  EXPECT_EQ(plan.owner[0] < cell_id{2}, plan.owner[2] < cell_id{2});
  EXPECT_EQ(plan.makespan, 90 + 21);
}

TEST(FillSlots, FillsCellsOfDifferentCaps)
{
  std::vector<std::int64_t> const lengths{60, 50, 40, 10, 10, 10};
  std::vector<std::int64_t> const caps{20, 100};
  auto const plan =
      partition_grid(lengths, 2, {.most_weights = caps}, fill_slots{}, std::identity{}).value();
  EXPECT_EQ(plan.microbatches, 2U);
  EXPECT_EQ(plan.fewest_microbatches, 2U);
}

TEST(FillSlotsDeathTest, AsksForAHeight)
{
  EXPECT_DEATH((void)partition_grid(std::vector{1}, 1, {}, fill_slots{0}, std::identity{}),
               "0 heights");
}

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

// Written out by hand. That the bound is never above the optimum is tested beside the front door,
// on all plans of small grids.
TEST(GridLowerBound, CountsLongSamplesAndWhatFitsBesideThem)  // Ensures (1)
{
  // Two ranks, cap 10, costs are squares: 8, 7 and 6 weigh more than half, so that two slots last 64
  // and 36 at least.
  std::vector<std::int64_t> const lengths{8, 7, 6, 2, 2, 2};
  auto const square = [](std::int64_t length) { return length * length; };
  auto const plan =
      partition_grid(lengths, 2, {.most_weight = 10, .meet = grid_meeting::microbatch},
                     fill_slots{}, square)
          .value();
  // j = 1: 64 + (161 - F(20)) / 2, where F takes 64, 49 and five sixths of 36: 143. j = 2: 64 + 36.
  EXPECT_EQ(plan.lower_bound, 64 + 36);
  auto const sums = partition_grid(lengths, 2, {.most_weight = 10}, fill_slots{}, square);
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->lower_bound, 85);  // 49 + 36; without 64 there are four sums near half of 161
}

TEST(GridLowerBound, KnowsThatFullCellsHoldASampleEach)
{
  std::vector<std::int64_t> const lengths{100, 20, 20, 20, 20, 20};
  grid_options options{.microbatches = 3, .meet = grid_meeting::microbatch, .fill_cells = true};
  auto const plan =
      partition_grid(lengths, 2, options, fill_slots{}, [](std::int64_t length) { return length; });
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->lower_bound, 140);
  EXPECT_EQ(plan->makespan, 140);
}

}  // namespace grid_policies
