// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/scaled_number.hpp>  // first: proves it is self-contained

#include "../../support/exact.hpp"
#include "../../support/test.hpp"

namespace {

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

}  // namespace
