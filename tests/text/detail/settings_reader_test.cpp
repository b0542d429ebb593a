// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/detail/settings_reader.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

using ballast::error_code;
using ballast::result;
using ballast::detail::settings_reader;
using ballast::detail::value_errors;

template <class Questions>
result<bool> ask(std::string_view text, Questions const& questions,
                 value_errors point = value_errors::at_the_key)
{
  auto const parsed = ballast::detail::parse_policy_expression(text).value();
  settings_reader read(parsed, "KNOWN", point);
  questions(read);
  return read.finish(true);
}

void expect_refused(result<bool> const& outcome, error_code code, std::size_t position,
                    char const* why)
{
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, code) << outcome.error().message;
  EXPECT_EQ(outcome.error().position, position) << outcome.error().message;
  EXPECT_THAT(outcome.error().message, testing::HasSubstr(why));
}

TEST(SettingsReader, LeavesTargetsOfWhatIsNotWritten)
{
  std::uint32_t work = 5;
  std::uint32_t share = 6;
  double gamma = 0.5;
  bool causal = true;
  auto const outcome = ask("a:share=0.25", [&](settings_reader& read) {
    read.number("work", work);
    read.per_million("share", share);
    read.floating_point("gamma", gamma);
    read.flag("causal", causal);
    EXPECT_EQ(read.choice("kind", {"plain", "other"}), 0U);
    EXPECT_TRUE(read.is_written("share"));
    EXPECT_FALSE(read.is_written("work"));
  });
  EXPECT_TRUE(outcome);
  EXPECT_EQ(work, 5U);
  EXPECT_EQ(share, 250'000U);
  EXPECT_EQ(gamma, 0.5);
  EXPECT_TRUE(causal);
}

TEST(SettingsReader, ReadsNumbersWithinBoundsOnly)
{
  auto const number = [](std::string_view text) {
    std::int64_t value = -9;
    auto const outcome =
        ask(text, [&](settings_reader& read) { read.number<std::int64_t>("n", value, -2, 30); });
    EXPECT_EQ(outcome.has_value(), value != -9) << text;
    return value;
  };
  EXPECT_EQ(number("a:n=-2"), -2);
  EXPECT_EQ(number("a:n=30"), 30);
  for (char const* const wrong : {"a:n=31", "a:n=-3", "a:n=1.5", "a:n=0x1", "a:n=1 "}) {
    EXPECT_EQ(number(wrong), -9) << wrong;
  }
}

TEST(SettingsReader, ReadsFlagsAndFloatingPoint)
{
  bool yes = false;
  bool no = true;
  double number = 0;
  double infinite = 0;
  EXPECT_TRUE(ask("a:yes=1,no=0,x=-4.05e-1,y=inf", [&](settings_reader& read) {
    read.flag("yes", yes);
    read.flag("no", no);
    read.floating_point("x", number);
    read.floating_point("y", infinite);
  }));
  EXPECT_TRUE(yes);
  EXPECT_FALSE(no);
  EXPECT_EQ(number, -0.405);
  EXPECT_TRUE(std::isinf(infinite));
  for (char const* const wrong : {"a:yes=2", "a:yes=true", "a:yes=-1"}) {
    expect_refused(ask(wrong, [&](settings_reader& read) { read.flag("yes", yes); }),
                   error_code::out_of_range, 2, "give 0 or 1");
  }
  expect_refused(ask("a:x=1e999", [&](settings_reader& read) { read.floating_point("x", number); }),
                 error_code::out_of_range, 2, "give a decimal number such as 0.405");
}

TEST(SettingsReader, KeepsTheFirstThatIsWrong)  // Ensures (2)
{
  std::uint32_t value = 0;
  auto const outcome = ask("a:n=x,m=y,other=1", [&](settings_reader& read) {
    read.number("n", value);
    read.number("m", value);
    read.refuse(error_code::syntax, 0, "never shown");
  });
  expect_refused(outcome, error_code::out_of_range, 2,
                 "at offset 2 of 'a:n=x,m=y,other=1': n is 'x'; give a whole number from 0 to");
}

TEST(SettingsReader, PointsAtValuesWhereAsked)
{
  std::uint32_t value = 0;
  auto const questions = [&](settings_reader& read) {
    EXPECT_EQ(read.offset_of("n", 99), 4U);
    EXPECT_EQ(read.offset_of("m", 99), 99U);
    read.number("n", value);
  };
  expect_refused(ask("a:n=x", questions, value_errors::at_the_value), error_code::out_of_range, 4,
                 "at offset 4 of 'a:n=x': n is 'x'");
}

TEST(SettingsReader, RefusesWhatNobodyAsksFor)  // Ensures (1)
{
  auto const nothing = [](settings_reader&) {};
  expect_refused(ask("a:n=1", nothing), error_code::unknown_name, 2,
                 "'n' is no parameter of a, which takes KNOWN");
  expect_refused(ask("a:b", nothing), error_code::unknown_name, 2,
                 "'b' has no place in a, which takes KNOWN");
  EXPECT_TRUE(ask("a:b", [](settings_reader& read) { EXPECT_EQ(read.inner().size(), 1U); }));
  std::uint32_t value = 0;
  expect_refused(ask("a:n=1,n=2", [&](settings_reader& read) { read.number("n", value); }),
                 error_code::syntax, 6, "'n' is given twice");
}

TEST(SettingsReader, RefusesKeysBeforeValuesWhereAsked)
{
  std::uint32_t value = 0;
  auto const questions = [&](settings_reader& read) {
    read.refuse_others({"n", "m"});
    read.number("n", value);
    read.number("m", value);
  };
  expect_refused(ask("a:n=x,other=1", questions), error_code::unknown_name, 6, "'other'");
  expect_refused(ask("a:n=x,m=y", questions), error_code::out_of_range, 2, "n is 'x'");
}

}  // namespace
