#include <ballast/partition/detail/patterns/simplex_number.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using ballast::detail::simplex_number;

TEST(SimplexNumber, RoundsProductsToTheNearestUnit)
{
  constexpr std::int64_t one = simplex_number::one;
  EXPECT_EQ(simplex_number::product(3 * one, -one / 2), -3 * one / 2);
  EXPECT_EQ(simplex_number::product(1, one / 2), 1) << "half a unit";
  EXPECT_EQ(simplex_number::product(1, one / 2 - 1), 0);
}

TEST(SimplexNumber, Divides)
{
  constexpr std::int64_t one = simplex_number::one;
  EXPECT_EQ(static_cast<std::int64_t>(simplex_number::quotient(3 * one, 2 * one)), 3 * one / 2);
  EXPECT_EQ(static_cast<std::int64_t>(simplex_number::quotient(-one, 2 * one)), -one / 2);
}

}  // namespace
