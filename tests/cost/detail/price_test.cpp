// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/detail/price.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/cost/quadratic_cost.hpp>

#include <cstdint>

namespace {

using ballast::tokens;
using ballast::detail::price;

struct priced_picture {
  std::uint16_t side = 0;
  [[nodiscard]] constexpr unsigned area() const { return unsigned{side} * side; }
};

TEST(Price, TakesWhateverIsACostModel)
{
  constexpr priced_picture square{12};
  static_assert(price(&priced_picture::side, square) == 12);
  static_assert(price(&priced_picture::area, square) == 144);
  static_assert(price([](priced_picture const& each) { return each.side + 1; }, square) == 13);
  EXPECT_EQ(price(ballast::quadratic_cost{2, 1}, tokens{5}), 35);
}

}  // namespace
