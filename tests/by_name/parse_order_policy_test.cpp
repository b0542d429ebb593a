// SPDX-License-Identifier: Apache-2.0
#include <ballast/by_name/parse_order_policy.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace {

using ballast::any_order_policy;
using ballast::error_code;
using ballast::parse_order_policy;

template <class Policy>
void expect_parsed(std::string_view text, Policy const& policy)
{
  auto const parsed = parse_order_policy(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, any_order_policy{policy}) << text;
}

TEST(ParseOrderPolicy, KnowsEveryPolicyByItsName)
{
  expect_parsed("given", ballast::given_order{});
  expect_parsed("ascending", ballast::ascending_order{});
  expect_parsed("interval", ballast::interval_filling{});
  expect_parsed("insertion", ballast::insertion{});
  expect_parsed("insertion:evaluations=500", ballast::insertion{500});
  expect_parsed("search", ballast::local_search{});
  expect_parsed("exact", ballast::exact_order{});
}

TEST(ParseOrderPolicy, ReadsParameters)
{
  expect_parsed("search:evaluations=500", ballast::local_search<>{.evaluations = 500});
  expect_parsed("search:seed=7,evaluations=5",
                ballast::local_search<>{.evaluations = 5, .seed = 7});
  expect_parsed("search(seed=18446744073709551615)",
                ballast::local_search<>{.seed = 18446744073709551615U});
  expect_parsed("exact:nodes=0", ballast::exact_order<>{.nodes = 0});
}

void expect_refused(std::string_view text, error_code code, std::size_t position, char const* why)
{
  auto const policy = parse_order_policy(text);
  ASSERT_FALSE(policy) << text;
  EXPECT_EQ(policy.error().code, code) << policy.error().message;
  EXPECT_EQ(policy.error().position, position) << policy.error().message;
  EXPECT_THAT(policy.error().message, testing::HasSubstr(why));
  EXPECT_EQ(policy.error().message.find('\n'), std::string::npos);
}

TEST(ParseOrderPolicy, SaysWhatIsWrongAndWhere)
{
  expect_refused("", error_code::syntax, 0, "expected the name");
  expect_refused("search:", error_code::syntax, 7, "expected the name");
  expect_refused("magic", error_code::unknown_name, 0,
                 "there is no order policy 'magic'; choose one of given, ascending, interval, "
                 "insertion:evaluations=N, search:evaluations=N,seed=S, exact:nodes=N");
  expect_refused("given:seed=1", error_code::unknown_name, 6,
                 "'seed' is no parameter of given, which takes nothing");
  expect_refused("search:sede=1", error_code::unknown_name, 7,
                 "'sede' is no parameter of search, which takes evaluations=N,seed=S");
  expect_refused("search:seed=1,seed=2", error_code::syntax, 14, "'seed' is given twice");
  expect_refused("exact:nodes=many", error_code::out_of_range, 6,
                 "nodes is 'many'; give a whole number from 0 to 18446744073709551615");
  expect_refused("search:evaluations=-1", error_code::out_of_range, 7, "evaluations is '-1'");
  expect_refused("exact:insertion", error_code::unknown_name, 6, "'insertion' has no place in");
}

TEST(ParseOrderPolicy, ListsNamesThatItKnows)
{
  std::string const names = ballast::order_policy_names();
  for (auto const& each : ballast::detail::named_order_policies) {
    EXPECT_THAT(names, testing::HasSubstr(std::string(each.name)));
    EXPECT_TRUE(parse_order_policy(each.name)) << each.name;
  }
  EXPECT_THAT(names, testing::HasSubstr("search:evaluations=N,seed=S"));
}

}  // namespace
