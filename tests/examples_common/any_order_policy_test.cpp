// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/by_name/any_order_policy.hpp"  // first: proves it is self-contained
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include "../support/test.hpp"

#include "../support/order_checks.hpp"
#include "../support/pipelines.hpp"

namespace {

using by_name::any_order_policy;

static_assert(ballast::order_policy<any_order_policy>);

template <class Policy>
void expect_orders_alike(Policy const& policy)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 10; ++trial) {
    auto const schedule = ballast_test::chain_schedule(4, 6);
    auto const times = ballast_test::random_times(random, 6, 4, 100);
    auto const expected = order_microbatches(schedule, times, policy).value();
    auto const plan = order_microbatches(schedule, times, any_order_policy{policy}).value();
    EXPECT_EQ(plan.order, expected.order);
    EXPECT_EQ(plan.lower_bound, expected.lower_bound);  // what it proves too
  }
}

TEST(AnyOrderPolicy, OrdersAndProvesAsThePolicyThatItHolds)  // Ensures (1)
{
  expect_orders_alike(ballast::given_order{});
  expect_orders_alike(ballast::ascending_order{});
  expect_orders_alike(ballast::interval_filling{});
  expect_orders_alike(ballast::insertion{});
  expect_orders_alike(ballast::local_search<>{.evaluations = 100});
  expect_orders_alike(ballast::exact_order{});
}

TEST(AnyOrderPolicy, IsAValue)
{
  any_order_policy const usual;
  EXPECT_EQ(usual, any_order_policy{ballast::given_order{}});
  any_order_policy changed{ballast::local_search<>{.seed = 2}};
  EXPECT_NE(changed, usual);
  EXPECT_NE(changed, any_order_policy{ballast::local_search<>{.seed = 3}});
  changed = usual;
  EXPECT_EQ(changed, usual);
}

TEST(AnyOrderPolicy, KeepsWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(any_order_policy{ballast::local_search<>{.evaluations = 40}},
                                    107);
}

}  // namespace
