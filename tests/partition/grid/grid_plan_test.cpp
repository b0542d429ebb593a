// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/grid_plan.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

#include <ballast/partition/grid/fill_slots.hpp>
#include <ballast/partition/grid/partition_grid.hpp>

namespace grid_plans {

using namespace ballast;

TEST(GridPlan, HasADigestThatTellsPlansApart)
{
  auto const plan =
      partition_grid(std::vector{3, 2, 1}, 2, {.microbatches = 2}, fill_slots{}, std::identity{})
          .value();
  auto other = plan;
  EXPECT_EQ(other.digest(), plan.digest());
  other.owner[1] = other.owner[0];
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  std::swap(other.ranks, other.costs[2] == 1 ? other.microbatches : other.ranks);
  other.ranks = 1;
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  ++other.weights[2];
  EXPECT_NE(other.digest(), plan.digest());
}

TEST(GridPlanDeathTest, HasNoOtherCells)
{
  auto const plan =
      partition_grid(std::vector{3, 2, 1}, 2, {.microbatches = 2}, fill_slots{}, std::identity{})
          .value();
  EXPECT_EQ(plan.cell(rank_id{1}, 1), cell_id{3});
  EXPECT_DEATH((void)plan.microbatch(rank_id{2}, 0), "rank 2 and slot 0 of 2 ranks");
}

}  // namespace grid_plans
