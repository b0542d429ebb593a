// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/grid_lower_bound.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

#include <ballast/partition/grid/fill_slots.hpp>
#include <ballast/partition/grid/partition_grid.hpp>

namespace grid_bounds {

using namespace ballast;

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

}  // namespace grid_bounds
