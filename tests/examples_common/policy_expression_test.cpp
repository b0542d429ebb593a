#include "../../examples/common/by_name/policy_expression.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

namespace {

using by_name::parse_policy_expression;
using by_name::policy_expression;

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
  expect_refused("", 0, "expected a name, as in exact");
  expect_refused("LPT", 0, "expected a name, as in exact");
  expect_refused("refine:", 7, "expected a name, as in exact");
  expect_refused("refine:lpt,", 11, "expected a name, as in exact");
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
