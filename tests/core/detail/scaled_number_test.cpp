// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/scaled_number.hpp>  // first: proves it is self-contained

#include "../../support/exact.hpp"
#include "../../support/test.hpp"

namespace {

namespace fixed = ballast::detail::fixed_point;
using ballast::random_source;
using ballast::uint128;
using ballast::detail::scaled_number;
using ballast_test::cpp_int;
using ballast_test::cpp_rational;
using ballast_test::power_of_two;

static_assert(std::regular<scaled_number>);

// A finite double of any magnitude, not negative.
double any_double()
{
  auto const bits = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{0x7ff} << 52);
  return std::bit_cast<double>(bits);
}

// The value in full: all 64 bits of the mantissa survive rounding where the highest is bit 63.
cpp_rational value_of(scaled_number number)
{
  if (number == scaled_number()) { return 0; }
  int const shift = 63 - number.floor_log2();
  return cpp_rational(number.shifted(shift).rounded().value()) * power_of_two(-shift);
}

RC_GTEST_PROP(ScaledNumber, HoldsAnyDoubleExactly, ())  // Ensures (1)
{
  double const value = any_double();
  RC_ASSERT(value_of(scaled_number::from(value).value()) == ballast_test::exact(value));
}

RC_GTEST_PROP(ScaledNumber, HoldsAnyIntegerExactly, (std::uint64_t value))  // Ensures (1)
{
  RC_ASSERT(value_of(scaled_number(value)) == cpp_rational(value));
}

TEST(ScaledNumber, HoldsTheExtremeDoubles)  // Ensures (1)
{
  using limits = std::numeric_limits<double>;
  for (double const value : {limits::min(), limits::max(), limits::denorm_min(),
                             limits::min() - limits::denorm_min(), 1.0, 0.1}) {
    EXPECT_EQ(value_of(scaled_number::from(value).value()), ballast_test::exact(value)) << value;
  }
  EXPECT_EQ(scaled_number::from(0.0), scaled_number());
  EXPECT_EQ(scaled_number::from(-0.0), scaled_number());
}

TEST(ScaledNumber, RefusesWhatIsNoAmount)  // Ensures (1)
{
  using limits = std::numeric_limits<double>;
  for (double const value : {limits::quiet_NaN(), -limits::quiet_NaN(), limits::infinity(),
                             -limits::infinity(), -1.0, -limits::denorm_min()}) {
    EXPECT_EQ(scaled_number::from(value), std::nullopt) << value;
  }
}

RC_GTEST_PROP(ScaledNumber, MultipliesToSixtyFourBits, ())  // Ensures (2)
{
  double const a = any_double();
  double const b = any_double();
  cpp_rational const exact = ballast_test::exact(a) * ballast_test::exact(b);
  cpp_rational const product =
      value_of(scaled_number::from(a).value() * scaled_number::from(b).value());
  RC_ASSERT(product <= exact);
  RC_ASSERT(exact == 0 || exact - product < exact * power_of_two(-63));
}

RC_GTEST_PROP(ScaledNumber, MultipliesSmallIntegersExactly,  // Ensures (2)
              (std::uint32_t a, std::uint32_t b))
{
  RC_ASSERT((scaled_number(a) * scaled_number(b)).rounded() == std::uint64_t{a} * b);
}

RC_GTEST_PROP(ScaledNumber, RoundsHalvesUp, (std::uint64_t value))  // Ensures (3)
{
  int const shift = *rc::gen::inRange(-70, 70);
  cpp_int const rounded = ballast_test::round_half_up(cpp_rational(value) * power_of_two(shift));
  auto const found = scaled_number(value).shifted(shift).rounded();
  if (rounded > std::numeric_limits<std::uint64_t>::max()) {
    RC_ASSERT(found == std::nullopt);
  } else {
    RC_ASSERT(found == static_cast<std::uint64_t>(rounded));
  }
}

TEST(ScaledNumber, RoundsAtTheEdges)  // Ensures (3)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(scaled_number(most).rounded(), most);
  EXPECT_EQ(scaled_number(most).shifted(1).rounded(), std::nullopt);
  EXPECT_EQ(scaled_number(1).shifted(64).rounded(), std::nullopt);
  EXPECT_EQ(scaled_number(1).shifted(-1).rounded(), 1U);
  EXPECT_EQ(scaled_number(1).shifted(-2).rounded(), 0U);
  EXPECT_EQ(scaled_number().shifted(1000).rounded(), 0U);
}

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
