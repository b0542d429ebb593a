// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/grid_plan.hpp>  // first: proves it is self-contained

#include "../../support/plan_checks.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/grid/fill_slots.hpp>
#include <ballast/partition/grid/partition_grid.hpp>

namespace grid_plans {

using namespace ballast;
using namespace ballast_test;

TEST(GridPlan, HasCellsAndADigestThatTellsPlansApart)
{
  auto const plan =
      partition_grid(std::vector{3, 2, 1}, 2, {.microbatches = 2}, fill_slots{}, std::identity{})
          .value();
  expect_digest_of_all(plan, {[](auto& of) { of.owner[1] = of.owner[0]; },
                              [](auto& of) { of.ranks = 1; }, [](auto& of) { ++of.weights[2]; }});
  EXPECT_EQ(plan.cell(rank_id{1}, 1), cell_id{3});
  EXPECT_DEATH((void)plan.microbatch(rank_id{2}, 0), "rank 2 and slot 0 of 2 ranks");
}

// Satisfies grid_policy and nothing more: deals samples to cells in turn.
struct in_turn {
  bool operator()(grid_problem const& problem, std::span<cell_id> owner, workspace&) const
  {
    for (std::size_t item = 0; item < owner.size(); ++item) {
      owner[item] = to_id<cell_id>(item % problem.cells());
    }
    return true;
  }
};

struct says_nothing {
  void operator()(grid_problem const&, std::span<cell_id>, workspace&) const {}
};

static_assert(grid_policy<in_turn>);
static_assert(!grid_policy<says_nothing>);

TEST(GridPolicy, IsAllThatTheFrontDoorAsksFor)
{
  auto const plan =
      partition_grid(std::vector{1, 2, 3, 4, 5}, 2, {.microbatches = 2}, in_turn{}, std::identity{})
          .value();
  EXPECT_EQ(plan.makespan, 1 + 5 + 3 > 2 + 4 ? 9 : 6);
}

TEST(GridSlot, TakesWhatItSays)
{
  grid_slot const pairs{0, 2, 6, 2};
  EXPECT_TRUE(pairs.takes(2) && pairs.takes(6));
  EXPECT_FALSE(pairs.takes(0) || pairs.takes(3) || pairs.takes(8));
  EXPECT_FALSE(pairs.grows());
  EXPECT_TRUE(grid_slot{}.grows() && grid_slot{}.takes(0));
}

TEST(GridOptions, AskForNothing)
{
  grid_options const none;
  EXPECT_FALSE(none.microbatches);
  EXPECT_EQ(none.most_weight, no_limit);
  EXPECT_EQ(none.counts, cell_counts{});
  EXPECT_NE(cell_counts::equal(), cell_counts::multiple_of(1));
  EXPECT_TRUE(none.together.empty() && none.kinds.empty() && none.home.empty());
}

}  // namespace grid_plans
