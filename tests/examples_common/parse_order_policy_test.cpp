// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/by_name/parse_order_policy.hpp"  // first: proves it is self-contained

#include "../../examples/common/by_name/any_order_policy.hpp"
#include "../support/order_checks.hpp"
#include "../support/parse_checks.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>

namespace {

using ballast::error_code;
using by_name::any_order_policy;
using by_name::parse_order_policy;

template <class Policy>
void expect_order_policy(std::string_view text, Policy const& policy)
{
  ballast_test::expect_parsed(parse_order_policy, text, any_order_policy(policy));
}

void expect_no_order_policy(std::string_view text, error_code code, std::size_t position,
                            char const* why)
{
  ballast_test::expect_refused(parse_order_policy, text, code, position, why);
}

TEST(ParseOrderPolicy, KnowsEveryPolicyByItsName)
{
  expect_order_policy("given", ballast::given_order{});
  expect_order_policy("ascending", ballast::ascending_order{});
  expect_order_policy("interval", ballast::interval_filling{});
  expect_order_policy("insertion", ballast::insertion{});
  expect_order_policy("insertion:evaluations=500", ballast::insertion{500});
  expect_order_policy("search", ballast::local_search{});
  expect_order_policy("exact", ballast::exact_order<ballast::local_search<>>{});
}

TEST(ParseOrderPolicy, ReadsParameters)
{
  expect_order_policy("search:evaluations=500", ballast::local_search<>{.evaluations = 500});
  expect_order_policy("search:seed=7,evaluations=5",
                      ballast::local_search<>{.evaluations = 5, .seed = 7});
  expect_order_policy("search(seed=18446744073709551615)",
                      ballast::local_search<>{.seed = 18446744073709551615U});
  expect_order_policy("exact:nodes=0", ballast::exact_order<ballast::local_search<>>{.nodes = 0});
}

TEST(ParseOrderPolicy, SaysWhatIsWrongAndWhere)
{
  expect_no_order_policy("", error_code::syntax, 0,
                         "expected a name, as in search:evaluations=5000,seed=7");
  expect_no_order_policy(
      "magic", error_code::unknown_name, 0,
      "there is no order policy 'magic'; choose one of given, ascending, interval, "
      "insertion:evaluations=N, search:evaluations=N,seed=S, exact:nodes=N");
  expect_no_order_policy("given:seed=1", error_code::unknown_name, 6,
                         "'seed' is no parameter of given, which takes nothing");
  expect_no_order_policy("search:sede=1", error_code::unknown_name, 7,
                         "'sede' is no parameter of search, which takes evaluations=N,seed=S");
  expect_no_order_policy("exact:nodes=many", error_code::out_of_range, 6,
                         "nodes is 'many'; give a whole number from 0 to 18446744073709551615");
  expect_no_order_policy("exact:insertion", error_code::unknown_name, 6,
                         "'insertion' has no place in");
}

TEST(ParseOrderPolicy, ListsNamesThatItKnows)
{
  std::string const names = by_name::order_policy_names();
  for (auto const& each : by_name::named_order_policies) {
    EXPECT_THAT(names, testing::HasSubstr(std::string(each.name)));
    EXPECT_TRUE(parse_order_policy(each.name)) << each.name;
  }
  EXPECT_THAT(names, testing::HasSubstr("search:evaluations=N,seed=S"));
}

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
