// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/precedes.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <string_view>
#include <tuple>

namespace {

using ballast::detail::precedes;
using namespace std::string_view_literals;

static_assert(precedes(1, 2) && !precedes(2, 1) && !precedes(1, 1));
static_assert(precedes("a"sv, "b"sv, 2, 1));  // values of several types

TEST(Precedes, IsTheOrderOfTuples)
{
  constexpr int values = 3;
  for (int number = 0; number < values * values * values * values * values * values; ++number) {
    int digits[6];
    for (int rest = number; int& digit : digits) {
      digit = rest % values;
      rest /= values;
    }
    auto const [a, b, c, d, e, f] = digits;
    EXPECT_EQ(precedes(a, b, c, d, e, f), std::tuple(a, c, e) < std::tuple(b, d, f));
  }
}

}  // namespace
