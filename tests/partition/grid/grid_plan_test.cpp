// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/grid_plan.hpp>  // first: proves it is self-contained

#include "../../support/plan_checks.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/grid/partition_grid.hpp>

namespace grid_plans {

using namespace ballast;
using namespace ballast_test;

TEST(GridPlan, HasCellsAndADigestThatTellsPlansApart)
{
  auto const plan =
      partition_grid(std::vector{3, 2, 1}, one_gpu_bags(2), {.number = 2}, std::identity{}).value();
  expect_digest_of_all(plan, {[](auto& of) { of.owner[1] = of.owner[0]; },
                              [](auto& of) { of.ranks = 1; }, [](auto& of) { ++of.weights[2]; }});
  EXPECT_EQ(plan.cell(rank_id{1}, 1), cell_id{3});
  EXPECT_DEATH((void)plan.microbatch(rank_id{2}, 0), "rank 2 and slot 0 of 2 ranks");
}

TEST(Microbatches, AskForNothing)
{
  microbatches const none;
  EXPECT_FALSE(none.number);
  EXPECT_EQ(none.meet, grid_meeting::step);
  EXPECT_TRUE(none.kinds.empty());
}

}  // namespace grid_plans
