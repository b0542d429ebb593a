// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/number_text.hpp"  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

namespace {

using pages::grouped_text;
using pages::ratio_text;
using pages::si_text;

TEST(GroupedText, PutsThreeDigitsInAGroup)
{
  EXPECT_EQ(grouped_text(0), "0");
  EXPECT_EQ(grouped_text(999), "999");
  EXPECT_EQ(grouped_text(1000), "1\u202F000");
  EXPECT_EQ(grouped_text(-123456), "-123\u202F456");
  EXPECT_EQ(grouped_text(1234567), "1\u202F234\u202F567");
}

TEST(SiText, ReadsAsPeopleWriteIt)  // Ensures (2)
{
  EXPECT_EQ(si_text(0, "s"), "0");
  EXPECT_EQ(si_text(0.0123, "s"), "12.3\u00A0ms");
  EXPECT_EQ(si_text(4.5e-5, "s"), "45\u00A0\u00B5s");
  EXPECT_EQ(si_text(3.2e12, "FLOP"), "3.2\u00A0TFLOP");
  EXPECT_EQ(si_text(16776, ""), "16.8k");
  EXPECT_EQ(si_text(200, ""), "200");
  EXPECT_EQ(si_text(999.9, "B"), "1\u00A0kB");
  EXPECT_EQ(si_text(-2500, ""), "-2.5k");
  EXPECT_EQ(si_text(1e-12, "s"), "1\u00A0ps");
  EXPECT_EQ(si_text(1.25e-13, "s"), "1.25e-13\u00A0s");
  EXPECT_EQ(si_text(9.994e20, "FLOP"), "999\u00A0EFLOP");
  EXPECT_EQ(si_text(1e21, "FLOP"), "1e21\u00A0FLOP");
}

TEST(SiText, HasNoKiloseconds)  // Ensures (3)
{
  EXPECT_EQ(si_text(999.4, "s"), "999\u00A0s");
  EXPECT_EQ(si_text(999.5, "s"), "1\u202F000\u00A0s");
  EXPECT_EQ(si_text(-12345, "s"), "-12\u202F300\u00A0s");
  EXPECT_EQ(si_text(999'400, "s"), "999\u202F000\u00A0s");
  EXPECT_EQ(si_text(999'500, "s"), "1e6\u00A0s");
  EXPECT_EQ(si_text(7.084e8, "s"), "7.08e8\u00A0s");
}

TEST(SiText, WritesPerCentWithoutAPrefix)  // Ensures (4)
{
  EXPECT_EQ(si_text(0.2, "%"), "0.2\u00A0%");
  EXPECT_EQ(si_text(0.000'05, "%"), "5e-05\u00A0%");
  EXPECT_EQ(si_text(100, "%"), "100\u00A0%");
  EXPECT_EQ(si_text(-999.9, "%"), "-1\u202F000\u00A0%");
  EXPECT_EQ(si_text(2e15, "%"), "2e+15\u00A0%");
}

RC_GTEST_PROP(SiText, IsWithinHalfAUnitOfTheThirdDigit, ())  // Ensures (1) (2)
{
  int const exponent = *rc::gen::inRange(-20, 28);
  double const mantissa = 1 + *rc::gen::inRange(0, 9'000'000) / 1e6;
  double const value = mantissa * std::pow(10.0, exponent);
  std::string const text = si_text(value, "");
  char* rest = nullptr;
  double const number = std::strtod(text.c_str(), &rest);
  std::string_view const prefix = rest;
  std::string_view const prefixes = "pn?m kMGTPE";
  int power = 0;
  if (prefix == "\u00B5") {
    power = -6;
  } else if (!prefix.empty()) {
    RC_ASSERT(prefix.size() == 1U && prefixes.find(prefix) != prefixes.npos);
    power = 3 * static_cast<int>(prefixes.find(prefix)) - 12;
  }
  double const read = number * std::pow(10.0, power);
  RC_ASSERT(std::abs(read - value) <= 0.500001e-2 * std::pow(10.0, exponent));
  if (text.find('e') == text.npos) { RC_ASSERT(number >= 1 && number < 1000); }
}

TEST(RatioText, LooksCloserNearOne)
{
  EXPECT_EQ(ratio_text(1), "1.000");
  EXPECT_EQ(ratio_text(1.0123), "1.012");
  EXPECT_EQ(ratio_text(28.114), "28.11");
  EXPECT_EQ(ratio_text(12345), "12.3k");
}

TEST(PercentText, KeepsAboutTwoDigitsAndNeverRoundsABoundDown)
{
  EXPECT_EQ(pages::percent_text(0), "0\u00A0%");
  EXPECT_EQ(pages::percent_text(0.4567), "46\u00A0%");
  EXPECT_EQ(pages::percent_text(0.0123), "1.2\u00A0%");
  EXPECT_EQ(pages::percent_text(0.00123), "0.12\u00A0%");
  EXPECT_EQ(pages::percent_text(0.000123), "0.012\u00A0%");
  EXPECT_EQ(pages::percent_text(0.0121, true), "1.3\u00A0%");
}

}  // namespace
