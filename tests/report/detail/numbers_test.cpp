// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/detail/numbers.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace {

TEST(IntegerText, ReachesBothEnds)
{
  std::string text = "n=";
  ballast::detail::append_integer(text, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(text, "n=-9223372036854775808");
}

TEST(IsFinite, TellsNumbersFromInfinitiesAndNan)
{
  using ballast::detail::is_finite;
  using limits = std::numeric_limits<double>;
  for (double const number : {0.0, -0.0, limits::denorm_min(), limits::max(), limits::lowest()}) {
    EXPECT_TRUE(is_finite(number)) << number;
  }
  EXPECT_FALSE(is_finite(limits::infinity()));
  EXPECT_FALSE(is_finite(-limits::infinity()));
  EXPECT_FALSE(is_finite(limits::quiet_NaN()));
}

}  // namespace
