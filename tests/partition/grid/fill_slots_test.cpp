// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/fill_slots.hpp>  // first: proves it is self-contained

#include "../../support/grid_oracle.hpp"
#include "../../support/test.hpp"
#include "../../support/trials.hpp"

#include <ballast/partition/grid/partition_grid.hpp>

namespace filled_slots {

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
  EXPECT_GT(planned, trials_of(300));
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

}  // namespace filled_slots
