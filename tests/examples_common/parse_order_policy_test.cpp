// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/by_name/parse_order_policy.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

#include "../support/parse_checks.hpp"

namespace {

using ballast::error_code;
using ballast_test::expect_parsed;
using ballast_test::expect_refused;
using by_name::any_order_policy;
using by_name::parse_order_policy;

TEST(ParseOrderPolicy, KnowsEveryPolicyByItsName)
{
  expect_parsed(parse_order_policy, "given", any_order_policy{ballast::given_order{}});
  expect_parsed(parse_order_policy, "ascending", any_order_policy{ballast::ascending_order{}});
  expect_parsed(parse_order_policy, "interval", any_order_policy{ballast::interval_filling{}});
  expect_parsed(parse_order_policy, "insertion", any_order_policy{ballast::insertion{}});
  expect_parsed(parse_order_policy, "insertion:evaluations=500",
                any_order_policy{ballast::insertion{500}});
  expect_parsed(parse_order_policy, "search", any_order_policy{ballast::local_search{}});
  expect_parsed(parse_order_policy, "exact",
                any_order_policy{ballast::exact_order<ballast::local_search<>>{}});
}

TEST(ParseOrderPolicy, ReadsParameters)
{
  expect_parsed(parse_order_policy, "search:evaluations=500",
                any_order_policy{ballast::local_search<>{.evaluations = 500}});
  expect_parsed(parse_order_policy, "search:seed=7,evaluations=5",
                any_order_policy{ballast::local_search<>{.evaluations = 5, .seed = 7}});
  expect_parsed(parse_order_policy, "search(seed=18446744073709551615)",
                any_order_policy{ballast::local_search<>{.seed = 18446744073709551615U}});
  expect_parsed(parse_order_policy, "exact:nodes=0",
                any_order_policy{ballast::exact_order<ballast::local_search<>>{.nodes = 0}});
}

TEST(ParseOrderPolicy, SaysWhatIsWrongAndWhere)
{
  expect_refused(parse_order_policy, "", error_code::syntax, 0,
                 "expected a name, as in search:evaluations=5000,seed=7");
  expect_refused(parse_order_policy, "search:", error_code::syntax, 7,
                 "expected a name, as in search:evaluations=5000,seed=7");
  expect_refused(parse_order_policy, "magic", error_code::unknown_name, 0,
                 "there is no order policy 'magic'; choose one of given, ascending, interval, "
                 "insertion:evaluations=N, search:evaluations=N,seed=S, exact:nodes=N");
  expect_refused(parse_order_policy, "given:seed=1", error_code::unknown_name, 6,
                 "'seed' is no parameter of given, which takes nothing");
  expect_refused(parse_order_policy, "search:sede=1", error_code::unknown_name, 7,
                 "'sede' is no parameter of search, which takes evaluations=N,seed=S");
  expect_refused(parse_order_policy, "search:seed=1,seed=2", error_code::syntax, 14,
                 "'seed' is given twice");
  expect_refused(parse_order_policy, "exact:nodes=many", error_code::out_of_range, 6,
                 "nodes is 'many'; give a whole number from 0 to 18446744073709551615");
  expect_refused(parse_order_policy, "search:evaluations=-1", error_code::out_of_range, 7,
                 "evaluations is '-1'");
  expect_refused(parse_order_policy, "exact:insertion", error_code::unknown_name, 6,
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

}  // namespace
