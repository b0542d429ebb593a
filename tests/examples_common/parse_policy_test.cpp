// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/by_name/parse_policy.hpp"  // first: proves it is self-contained

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../../examples/common/baselines/quadratic_with_tolerance.hpp"
#include "../../examples/common/by_name/policy_expression.hpp"
#include "../support/parse_checks.hpp"
#include "../support/test.hpp"

namespace {

using ballast::error_code;
using ballast::longest_processing_time;
using by_name::any_policy;
using by_name::parse_policy;
using by_name::parse_policy_expression;
using by_name::policy_expression;

template <class Policy>
void expect_policy(std::string_view text, Policy const& policy)
{
  ballast_test::expect_parsed(parse_policy, text, any_policy(policy));
}

void expect_no_policy(std::string_view text, error_code code, std::size_t position, char const* why)
{
  ballast_test::expect_refused(parse_policy, text, code, position, why);
}

TEST(ParsePolicy, KnowsEveryPolicyByItsName)
{
  expect_policy("longest_processing_time", longest_processing_time{});
  expect_policy("lpt", longest_processing_time{});
  expect_policy("karmarkar_karp", baselines::karmarkar_karp{});
  expect_policy("kk", baselines::karmarkar_karp{});
  expect_policy("round_robin", ballast::round_robin{});
  expect_policy("greedy_knapsack", ballast::greedy_knapsack{});
  expect_policy("greedy_knapsack:capacity=full",
                ballast::greedy_knapsack{ballast::knapsack_capacity::full});
  expect_policy("greedy_knapsack:capacity=remaining", ballast::greedy_knapsack{});
  expect_policy("padded_batches:orders=100", ballast::padded_batches{100});
  expect_policy("attention_padded_batches:work=9", ballast::attention_padded_batches{9});
  expect_policy("conv_transformer_batches", ballast::conv_transformer_batches{});
  expect_policy("quadratic_with_tolerance:tolerance=9", baselines::quadratic_with_tolerance{9});
}

TEST(ParsePolicy, NestsPolicies)
{
  any_policy const lpt{longest_processing_time{}};
  expect_policy("refine", ballast::refine<>{});
  expect_policy("refine:work=9,nodes=100", ballast::refine<>{.work = 9, .nodes = 100});
  expect_policy("refine:lpt", ballast::refine<any_policy>{lpt});
  expect_policy("refine:round_robin,work=100",
                ballast::refine<any_policy>{any_policy{ballast::round_robin{}}, 100});
  expect_policy(
      "refine:(refine:lpt),nodes=7",
      ballast::refine<any_policy>{any_policy{ballast::refine<any_policy>{lpt}}, 2'000'000, 64, 7});
}

TEST(ParsePolicy, SaysWhatIsWrongAndWhere)
{
  expect_no_policy("magic", error_code::unknown_name, 0, "there is no policy 'magic'");
  expect_no_policy("refine:magic", error_code::unknown_name, 7, "longest_processing_time (lpt)");
  expect_no_policy("", error_code::syntax, 0, "expected a name, as in refine");
  expect_no_policy("lpt:work=1", error_code::unknown_name, 4,
                   "'work' is no parameter of lpt, which takes nothing");
  expect_no_policy("refine:lpt,wrok=1", error_code::unknown_name, 11,
                   "'wrok' is no parameter of refine, which takes POLICY,work=N,nodes=N");
  expect_no_policy("refine:work=1,work=2", error_code::syntax, 14, "'work' is given twice");
  expect_no_policy("refine:work=many", error_code::out_of_range, 7,
                   "work is 'many'; give a whole number from 0 to 18446744073709551615");
  expect_no_policy("refine:work=-1", error_code::out_of_range, 7, "work is '-1'");
  expect_no_policy("quadratic_with_tolerance:tolerance=0", error_code::out_of_range, 25,
                   "from 1 to");
  expect_no_policy("greedy_knapsack:capacity=half", error_code::out_of_range, 16,
                   "give remaining or full");
  expect_no_policy("round_robin:lpt", error_code::unknown_name, 12, "'lpt' has no place in");
  expect_no_policy("refine:lpt,round_robin", error_code::syntax, 11, "works with one policy");
}

TEST(ParsePolicy, RefusesToExchangeSamplesThatArePadded)
{
  expect_no_policy("refine:padded_batches", error_code::out_of_range, 7,
                   "pads samples, which refine exchanges; use it by itself");
}

TEST(ParsePolicy, SaysWhichOptionOlderNamesAre)
{
  expect_no_policy("capped:refine", error_code::unknown_name, 0,
                   "'capped' is no policy but a limit: give --most-per-gpu");
  expect_no_policy("equal_count:multiple=4", error_code::unknown_name, 0, "--samples equal");
  expect_no_policy("least_movement", error_code::unknown_name, 0, "--then fewest_moves");
  expect_no_policy("refine:exact", error_code::unknown_name, 7, "refine:nodes=16777216");
}

TEST(ParsePolicy, ListsNamesThatItKnows)
{
  std::string const names = by_name::policy_names();
  for (auto const& each : by_name::named_policies) {
    EXPECT_THAT(names, testing::HasSubstr(std::string(each.name)));
    EXPECT_TRUE(parse_policy(each.name)) << each.name;
    if (!each.short_name.empty()) {
      EXPECT_EQ(parse_policy(each.short_name), parse_policy(each.name)) << each.name;
    }
  }
  EXPECT_THAT(names, testing::HasSubstr("refine:POLICY,work=N,nodes=N"));
}

// Every name with all its arguments in parentheses.
std::string text_of(policy_expression const& policy)
{
  std::string text(policy.name);
  char before = '(';
  for (auto const& inner : policy.inner) {
    (text += before) += text_of(inner);
    before = ',';
  }
  for (auto const& [key, value, position] : policy.settings) {
    (((text += before) += key) += '=') += value;
    before = ',';
  }
  return before == '(' ? text : text + ')';
}

std::string enclosed(std::string_view text)
{
  auto const parsed = parse_policy_expression(text);
  return parsed ? text_of(*parsed) : parsed.error().message;
}

TEST(PolicyExpression, NestsByColonsAndParentheses)
{
  EXPECT_EQ(enclosed("lpt"), "lpt");
  EXPECT_EQ(enclosed("refine:lpt"), "refine(lpt)");
  EXPECT_EQ(enclosed("refine(lpt)"), "refine(lpt)");
  EXPECT_EQ(enclosed("(refine:(lpt))"), "refine(lpt)");
  EXPECT_EQ(enclosed("capped:refine:lpt"), "capped(refine(lpt))");
  EXPECT_EQ(enclosed("refine:kk,work=100000"), "refine(kk,work=100000)");
  EXPECT_EQ(enclosed("least_movement:eps=0.005"), "least_movement(eps=0.005)");
  EXPECT_EQ(enclosed("a:kk,lpt"), "a(kk,lpt)");
}

TEST(PolicyExpression, GivesArgumentsAfterColonsToTheInnermost)
{
  EXPECT_EQ(enclosed("a:b:c,d,k=1"), "a(b(c,d,k=1))");
  EXPECT_EQ(enclosed("a:(b:c),d,k=1"), "a(b(c),d,k=1)");
  EXPECT_EQ(enclosed("a:b(c),d,k=1"), "a(b(c),d,k=1)");
  EXPECT_EQ(enclosed("a(b:c,k=1)"), "a(b(c,k=1))");
}

void expect_refused(std::string_view text, std::size_t position, char const* why)
{
  auto const parsed = parse_policy_expression(text);
  ASSERT_FALSE(parsed) << text;
  EXPECT_EQ(parsed.error().code, ballast::error_code::syntax);
  EXPECT_EQ(parsed.error().position, position) << parsed.error().message;
  EXPECT_THAT(parsed.error().message, testing::HasSubstr(why)) << text;
}

TEST(PolicyExpression, SaysWhereTheTextIsWrong)
{
  expect_refused("", 0, "expected a name, as in refine");
  expect_refused("LPT", 0, "expected a name, as in refine");
  expect_refused("refine:", 7, "expected a name, as in refine");
  expect_refused("refine:lpt,", 11, "expected a name, as in refine");
  expect_refused("refine(lpt", 10, "expected ',' or ')'");
  expect_refused("(lpt", 4, "expected ')'");
  expect_refused("lpt)", 3, "never opened");
  expect_refused("lpt,kk", 3, "expected the end");
  expect_refused("refine(lpt):x", 11, "expected the end");
  expect_refused("refine:work=", 12, "expected a value");
  expect_refused("lpt ", 3, "expected the end");
}

TEST(PolicyExpression, RefusesWhatIsNestedTooDeeply)
{
  expect_refused(std::string(100'000, '('), 32,
                 "more than 32 names inside each other; remove some");
  std::string deep = "lpt";
  for (int level = 0; level < 31; ++level) { deep.insert(0, "refine:"); }
  EXPECT_TRUE(parse_policy_expression(deep));
  EXPECT_FALSE(parse_policy_expression("refine:" + deep));
}

RC_GTEST_PROP(PolicyExpression, ReadsAnyTextWithoutHarm, ())
{
  auto const text =
      *rc::gen::container<std::string>(rc::gen::element<char>('a', ':', ',', '(', ')', '='));
  auto const parsed = parse_policy_expression(text);
  if (parsed) {
    // What was read and is written in full reads as the same.
    RC_ASSERT(enclosed(text_of(*parsed)) == text_of(*parsed));
  } else {
    RC_ASSERT(parsed.error().position <= text.size());
  }
}

}  // namespace
