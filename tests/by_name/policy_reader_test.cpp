#include <ballast/by_name/policy_reader.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

using ballast::any_policy;
using ballast::error_code;
using ballast::policy_expression;
using ballast::result;
using ballast::detail::policy_reader;

// Every name but `counted` is round_robin.
result<any_policy> read_inner(policy_expression const& text)
{
  if (text.name == "counted") { return any_policy(ballast::equal_count{}); }
  if (text.name == "wrong") { return ballast::fail(error_code::unknown_name, text.position, "no"); }
  return any_policy(ballast::round_robin{});
}

template <class Questions>
result<any_policy> ask(std::string_view text, Questions const& questions)
{
  auto const parsed = ballast::parse_policy_expression(text).value();
  policy_reader read(parsed, "KNOWN", read_inner);
  questions(read);
  return read.finish(any_policy{});
}

void expect_refused(result<any_policy> const& answer, std::size_t position, char const* why)
{
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().position, position) << answer.error().message;
  EXPECT_THAT(answer.error().message, testing::HasSubstr(why));
}

TEST(PolicyReader, LeavesTargetsOfWhatIsNotWritten)
{
  std::uint32_t work = 5;
  std::uint32_t share = 6;
  auto const answer = ask("a:share=0.25", [&](policy_reader& read) {
    read.number("work", work);
    read.per_million("share", share);
    EXPECT_EQ(read.choice("kind", {"plain", "other"}), 0U);
    EXPECT_EQ(read.policy(), any_policy{});
    EXPECT_EQ(read.policy(any_policy(ballast::equal_count{})), any_policy(ballast::equal_count{}));
  });
  EXPECT_TRUE(answer);
  EXPECT_EQ(work, 5U);
  EXPECT_EQ(share, 250'000U);
}

TEST(PolicyReader, ReadsNumbersWithinBoundsOnly)
{
  auto const number = [](std::string_view text) {
    std::int64_t value = -9;
    auto const answer =
        ask(text, [&](policy_reader& read) { read.number<std::int64_t>("n", value, -2, 30); });
    EXPECT_EQ(answer.has_value(), value != -9) << text;
    return value;
  };
  EXPECT_EQ(number("a:n=-2"), -2);
  EXPECT_EQ(number("a:n=30"), 30);
  for (char const* const wrong : {"a:n=31", "a:n=-3", "a:n=1.5", "a:n=0x1", "a:n=1 "}) {
    EXPECT_EQ(number(wrong), -9) << wrong;
  }
}

TEST(PolicyReader, KeepsTheFirstThatIsWrong)
{
  std::uint32_t value = 0;
  auto const answer = ask("a:n=x,m=y,other=1", [&](policy_reader& read) {
    read.number("n", value);
    read.number("m", value);
  });
  expect_refused(answer, 2, "n is 'x'");
}

TEST(PolicyReader, RefusesWhatNobodyAsksFor)
{
  auto const nothing = [](policy_reader&) {};
  expect_refused(ask("a:n=1", nothing), 2, "'n' is no parameter of a, which takes KNOWN");
  expect_refused(ask("a:b", nothing), 2, "'b' has no place in a, which takes KNOWN");
  std::uint32_t value = 0;
  expect_refused(ask("a:n=1,n=2", [&](policy_reader& read) { read.number("n", value); }), 6,
                 "'n' is given twice");
}

TEST(PolicyReader, ReadsInnerPolicies)
{
  auto const free = [](policy_reader& read) { (void)read.free_policy(); };
  auto const several = [](policy_reader& read) { EXPECT_EQ(read.free_policies().size(), 2U); };
  EXPECT_TRUE(ask("a:b", free));
  EXPECT_TRUE(ask("a:b,c", several));
  EXPECT_TRUE(ask("a:counted", [](policy_reader& read) { (void)read.policy(); }));
  expect_refused(ask("a:counted", free), 2, "a would break what 'counted' keeps to");
  expect_refused(ask("a:b,counted", several), 4, "keeps to");
  expect_refused(ask("a:wrong", free), 2, "no");
  expect_refused(ask("a:b,c", free), 4, "works with one policy");
  expect_refused(ask("a", [](policy_reader& read) { (void)read.free_policies(); }), 0,
                 "takes policies to choose from");
}

}  // namespace
