// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/ascending_order.hpp>  // first: proves it is self-contained

#include "../support/compiled_schedules.hpp"
#include "../support/order_checks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace {

using ballast::ascending_order;
using ballast::microbatch_id;

static_assert(ballast::order_policy<ascending_order>);

TEST(AscendingOrder, SortsByTotalTimeAndEqualOnesByNumber)  // Ensures (1)
{
  auto const schedule = ballast_test::chain_schedule(2, 4);
  ballast::pipeline_times times(4, 2);
  times.rows = {{5, 5}, {5, 6}, {1, 1}, {9, 9}, {0, 0}, {0, 1}, {20, 0}, {0, 0}};
  auto const plan = order_microbatches(schedule, times, ascending_order{}).value();
  EXPECT_EQ(plan.order,
            (std::vector{microbatch_id{2}, microbatch_id{1}, microbatch_id{3}, microbatch_id{0}}));

  // Whichever order it is given.
  std::vector order{microbatch_id{3}, microbatch_id{1}, microbatch_id{0}, microbatch_id{2}};
  ballast::workspace memory;
  ascending_order{}({schedule, times}, order, memory);
  EXPECT_EQ(order, plan.order);
}

TEST(AscendingOrder, DoesNotLookAtBackwardsThatAreNone)
{
  auto const stages = ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}}, {}).value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 2).value();
  ballast::pipeline_times times(2, 1);
  times.rows = {{2, 0}, {1, 50}};
  auto const plan = order_microbatches(schedule, times, ascending_order{}).value();
  EXPECT_EQ(plan.order, (std::vector{microbatch_id{1}, microbatch_id{0}}));
}

TEST(AscendingOrder, KeepsWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(ascending_order{}, 102);
}

TEST(AscendingOrderDeathTest, RefusesAnOrderOfAnotherLength)
{
  auto const schedule = ballast_test::chain_schedule(2, 3);
  ballast::pipeline_times const times(3, 2);
  std::vector<microbatch_id> order(2);
  ballast::workspace memory;
  EXPECT_DEATH(ascending_order{}({schedule, times}, order, memory),
               "an order of .* microbatches was given for a schedule of ");
}

}  // namespace
