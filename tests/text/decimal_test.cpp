// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/decimal.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;
using testing::HasSubstr;

std::string read_decimal(std::string_view text)
{
  auto const number = parse_decimal(text);
  return number ? number->text() : name_of(number.error().code);
}

TEST(Decimal, IsWhatIsWritten)  // Ensures (1)
{
  EXPECT_EQ(read_decimal("0"), "0");
  EXPECT_EQ(read_decimal("12"), "12");
  EXPECT_EQ(read_decimal("007"), "7");
  EXPECT_EQ(read_decimal("0.125"), "0.125");
  EXPECT_EQ(read_decimal("12.50"), "12.5");
  EXPECT_EQ(read_decimal(".5"), "0.5");
  EXPECT_EQ(read_decimal("5."), "5");
  EXPECT_EQ(read_decimal("1.5e-3"), "0.0015");
  EXPECT_EQ(read_decimal("1.5E+3"), "1500");
  EXPECT_EQ(read_decimal("0.000012e6"), "12");
  EXPECT_EQ(read_decimal("0e999"), "0");
  EXPECT_EQ(read_decimal("9223372036854775807.999999999"), "9223372036854775807.999999999");
}

TEST(Decimal, IsRoundedAtTheNinthDecimal)  // Ensures (1)
{
  EXPECT_EQ(read_decimal("0.1234567894999"), "0.123456789");
  EXPECT_EQ(read_decimal("0.1234567895"), "0.12345679");
  EXPECT_EQ(read_decimal("0.0000000004"), "out_of_range");
  EXPECT_EQ(read_decimal("5e-10"), "0.000000001");
  EXPECT_EQ(read_decimal("49e-11"), "out_of_range");
  EXPECT_EQ(read_decimal("9e-999"), "out_of_range");
  EXPECT_EQ(read_decimal("1." + std::string(1000, '9')), "2");
  EXPECT_EQ(read_decimal("0." + std::string(1000, '0') + "1e900"), "out_of_range");
}

TEST(Decimal, RefusesWhatIsNoNumberOfZeroOrMore)
{
  for (std::string const text : {"", ".", "e5", ".e5", "-1", "-0", "+1", " 1", "1 ", "1,5", "1.2.3",
                                 "1e", "1e+", "1e+-5", "1e5.", "0x10", "nan", "inf", "1_000"}) {
    EXPECT_EQ(read_decimal(text), "syntax") << text;
  }
  EXPECT_THAT(parse_decimal("-1").error().message,
              HasSubstr("'-1' is no number of 0 or more; write it as"));
}

TEST(Decimal, RefusesWhatIsTooLarge)
{
  for (std::string const text :
       {"9223372036854775808", "9223372036854775807.9999999996", "1e19", "1e1000", "1e-1000",
        "1e99999999999", "0.001e22", "99999999999999999999999999999999999999999999"}) {
    EXPECT_EQ(read_decimal(text), "out_of_range") << text;
  }
}

TEST(Decimal, CountsTheDecimalsThatItNeeds)
{
  EXPECT_EQ(decimal().decimals(), 0U);
  EXPECT_EQ(parse_decimal("12.500")->decimals(), 1U);
  EXPECT_EQ(parse_decimal("1e-9")->decimals(), 9U);
  EXPECT_TRUE(parse_decimal("12.5")->in_units(1) == 125);
  EXPECT_TRUE(parse_decimal("12.5")->in_units(9) == 12'500'000'000);
  EXPECT_TRUE(parse_decimal("9223372036854775807")->in_units(0) == INT64_MAX);
}

TEST(Decimal, LinesUpInColumns)
{
  EXPECT_EQ(decimal().text(3), "0.000");
  EXPECT_EQ(parse_decimal("12.5")->text(3), "12.500");
  EXPECT_EQ(parse_decimal("12.5")->text(1), "12.5");
  EXPECT_EQ(parse_decimal("12.5")->text(0), "12.5");
  EXPECT_EQ(parse_decimal("120")->text(9), "120.000000000");
}

RC_GTEST_PROP(Decimal, IsReadBackFromItsText, ())
{
  auto const units = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 100'000),
                                     rc::gen::inRange<std::int64_t>(0, INT64_MAX));
  auto const decimals = *rc::gen::inRange(0U, decimal::most_decimals + 1);
  auto const number = decimal::make(units, decimals);
  auto const again = parse_decimal(number.text());
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == number);
  RC_ASSERT(*parse_decimal(number.text(decimal::most_decimals)) == number);
  RC_ASSERT(number.decimals() <= decimals);
  RC_ASSERT(number.in_units(decimals) == static_cast<ballast::uint128>(units));
}

TEST(DecimalDeathTest, RefusesUnitsThatAreTooCoarse)
{
  EXPECT_DEATH((void)parse_decimal("12.5")->in_units(0),
               "a decimal that needs 1 decimals was asked for with 0");
  EXPECT_DEATH((void)decimal::make(-1, 0), "of -1 units,");
}

}  // namespace
