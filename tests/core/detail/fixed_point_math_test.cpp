// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/scaled_number.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

namespace {

namespace fixed = ballast::detail::fixed_point;
using ballast::random_source;
using ballast::uint128;

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

long double as_real(std::int64_t log2)
{
  return std::ldexp(static_cast<long double>(log2), -48);
}

// Every magnitude equally often.
std::uint64_t any_magnitude(random_source& random)
{
  return (random() | 1) >> random.below(64);
}

void expect_log2(std::uint64_t x)
{
  long double const below = (std::log2(static_cast<long double>(x)) - as_real(fixed::log2(x))) *
                            static_cast<long double>(fixed::log2_one);
  // The oracle's own error: 64-bit mantissas, results up to 64, units of 2^-48.
  long double const oracle = 0.01L;
  EXPECT_GE(below, -oracle) << x;
  EXPECT_LE(below, 1.01L + oracle) << x;
}

TEST(FixedPointLog2, IsAtMostOneUnitBelowTheLogarithm)  // Ensures (1)
{
  random_source random(20240607);
  for (std::uint64_t x = 1; x <= 5000; ++x) { expect_log2(x); }
  for (int trial = 0; trial < 50'000; ++trial) { expect_log2(any_magnitude(random) | 1); }
  expect_log2(largest);
}

TEST(FixedPointLog2, IsExactForPowersOfTwoAndNeverFalls)  // Ensures (2)
{
  for (int power = 0; power < 64; ++power) {
    EXPECT_EQ(fixed::log2(std::uint64_t{1} << power), power * fixed::log2_one);
  }
  random_source random(1);
  for (int trial = 0; trial < 10'000; ++trial) {
    std::uint64_t const x = any_magnitude(random) | 1;
    if (x != largest) { EXPECT_LE(fixed::log2(x), fixed::log2(x + 1)) << x; }
  }
}

TEST(FixedPointExp2, IsTheNearestInteger)  // Ensures (1)
{
  random_source random(20240607);
  for (int trial = 0; trial < 50'000; ++trial) {
    std::int64_t const y = random.between(-3 * fixed::log2_one, 64 * fixed::log2_one - 1);
    long double const exact = std::exp2(as_real(y));
    long double const error = std::abs(static_cast<long double>(fixed::exp2(y)) - exact);
    EXPECT_LE(error, 0.5L + exact * 0x1p-58L) << y;
  }
}

TEST(FixedPointExp2, IsExactForWholeNumbersAndNeverFalls)  // Ensures (2)
{
  for (int power = 0; power < 64; ++power) {
    std::int64_t const y = power * fixed::log2_one;
    EXPECT_EQ(fixed::exp2(y), std::uint64_t{1} << power);
    EXPECT_LE(fixed::exp2(y - 1), fixed::exp2(y));
    EXPECT_LE(fixed::exp2(y), fixed::exp2(y + 1));
  }
  random_source random(1);
  for (int trial = 0; trial < 10'000; ++trial) {
    std::int64_t const y = random.between(-fixed::log2_one, 64 * fixed::log2_one - 2);
    EXPECT_LE(fixed::exp2(y), fixed::exp2(y + 1)) << y;
  }
}

TEST(FixedPointExp2, EndsAtZeroAndAtTheLargestInteger)
{
  EXPECT_EQ(fixed::exp2(64 * fixed::log2_one), largest);
  EXPECT_EQ(fixed::exp2(std::numeric_limits<std::int64_t>::max()), largest);
  EXPECT_LT(fixed::exp2(64 * fixed::log2_one - 1), largest);
  EXPECT_EQ(fixed::exp2(-fixed::log2_one), 1U);  // 1/2 is rounded up
  EXPECT_EQ(fixed::exp2(-fixed::log2_one - 1), 0U);
  EXPECT_EQ(fixed::exp2(std::numeric_limits<std::int64_t>::min()), 0U);
}

TEST(FixedPointExp2, UndoesTheLogarithm)
{
  for (std::uint64_t x = 1; x < (std::uint64_t{1} << 40); x += x / 1000 + 1) {
    EXPECT_EQ(fixed::exp2(fixed::log2(x)), x);
  }
}

TEST(FixedPointSquareRoot, IsTheLargestWhoseSquareFits)
{
  auto const holds = [](std::uint64_t x) {
    auto const root = static_cast<uint128>(fixed::square_root(x));
    return root * root <= x && x < (root + 1) * (root + 1);
  };
  random_source random(1);
  for (std::uint64_t x = 0; x <= 5000; ++x) { EXPECT_TRUE(holds(x)) << x; }
  for (int trial = 0; trial < 10'000; ++trial) {
    std::uint64_t const x = any_magnitude(random);
    std::uint64_t const root = x >> 32;
    EXPECT_TRUE(holds(x)) << x;
    EXPECT_TRUE(holds(root * root)) << root;
    if (root != 0) { EXPECT_TRUE(holds(root * root - 1)) << root; }
  }
  EXPECT_TRUE(holds(largest));
}

static_assert(fixed::log2(8) == 3 * fixed::log2_one);
static_assert(fixed::exp2(10 * fixed::log2_one) == 1024);
static_assert(fixed::square_root(99) == 9);

TEST(FixedPointLog2DeathTest, RejectsZero)  // Expects
{
  EXPECT_DEATH((void)fixed::log2(0), "x >= 1");
}

}  // namespace
