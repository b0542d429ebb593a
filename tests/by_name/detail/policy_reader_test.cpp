// SPDX-License-Identifier: Apache-2.0
#include <ballast/by_name/any_policy.hpp>
#include <ballast/by_name/detail/policy_reader.hpp>  // first: proves it is self-contained
#include <ballast/core/result.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/text/detail/policy_expression.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>

namespace {

using ballast::any_policy;
using ballast::error_code;
using ballast::result;
using ballast::detail::policy_expression;
using ballast::detail::policy_reader;

// Every other name is round_robin.
result<any_policy> read_inner(policy_expression const& text)
{
  if (text.name == "counted") { return any_policy(ballast::equal_count{}); }
  if (text.name == "padded") { return any_policy(ballast::padded_batches{}); }
  if (text.name == "wrong") { return ballast::fail(error_code::unknown_name, text.position, "no"); }
  return any_policy(ballast::round_robin{});
}

template <class Questions>
result<any_policy> ask(std::string_view text, Questions const& questions)
{
  auto const parsed = ballast::detail::parse_policy_expression(text).value();
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

TEST(PolicyReader, HasTheUsualPolicyWhereNoneIsWritten)
{
  auto const answer = ask("a", [&](policy_reader& read) {
    EXPECT_EQ(read.policy(), any_policy{});
    EXPECT_EQ(read.policy(any_policy(ballast::equal_count{})), any_policy(ballast::equal_count{}));
  });
  EXPECT_TRUE(answer);
}

TEST(PolicyReader, ReadsInnerPolicies)
{
  auto const free = [](policy_reader& read) { (void)read.free_policy(); };
  auto const several = [](policy_reader& read) { EXPECT_EQ(read.free_policies().size(), 2U); };
  EXPECT_TRUE(ask("a:b", free));
  EXPECT_TRUE(ask("a:b,c", several));
  EXPECT_TRUE(ask("a:counted", [](policy_reader& read) { (void)read.policy(); }));
  expect_refused(ask("a:counted", free), 2, "a would break what 'counted' keeps to");
  auto const packed = [](policy_reader& read) { (void)read.packed_policy(); };
  EXPECT_TRUE(ask("a:counted", packed));
  expect_refused(ask("a:padded", packed), 2, "a would break what 'padded' keeps to");
  expect_refused(ask("a:b,counted", several), 4, "keeps to");
  expect_refused(ask("a:wrong", free), 2, "no");
  expect_refused(ask("a:b,c", free), 4, "works with one policy");
  expect_refused(ask("a", [](policy_reader& read) { (void)read.free_policies(); }), 0,
                 "takes policies to choose from");
}

}  // namespace
