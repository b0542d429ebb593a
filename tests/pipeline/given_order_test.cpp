// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/given_order.hpp>  // first: proves it is self-contained

#include "../support/compiled_schedules.hpp"
#include "../support/numbered_order.hpp"
#include "../support/order_checks.hpp"
#include "../support/random_times.hpp"

#include <gtest/gtest.h>

namespace {

using ballast::given_order;

static_assert(ballast::order_policy<given_order>);

TEST(GivenOrder, LeavesTheOrderAsItIs)  // Ensures (1)
{
  ballast::random_source random(1);
  auto const schedule = ballast_test::chain_schedule(3, 7);
  auto const times = ballast_test::random_times(random, 7, 3, 100);
  auto const plan = order_microbatches(schedule, times, given_order{}).value();
  EXPECT_EQ(plan.order, ballast_test::numbered_order(7));
  EXPECT_EQ(plan.makespan, plan.makespan_given);

  auto order = ballast_test::numbered_order(7);
  random.shuffle(std::span(order));
  auto const shuffled = order;
  ballast::workspace memory;
  given_order{}({schedule, times}, order, memory);
  EXPECT_EQ(order, shuffled);
}

TEST(GivenOrder, KeepsWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(given_order{}, 101);
}

}  // namespace
