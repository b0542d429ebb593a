// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/quadratic_cost.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/cost/concepts.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace {

using ballast::cost_units;
using ballast::longest_sample;
using ballast::no_cost;
using ballast::quadratic_cost;
using ballast::tokens;
using ballast::detail::quantise;
using ballast::detail::scaled_number;
using ballast_test::cpp_int;
using ballast_test::cpp_rational;
using ballast_test::power_of_two;

static_assert(ballast::cost_model<quadratic_cost>);
static_assert(ballast::attention_cost_model<quadratic_cost>);
static_assert(std::regular<quadratic_cost>);

template <quadratic_cost Cost>
constexpr cost_units priced_at_compile_time = Cost(10);
static_assert(priced_at_compile_time<quadratic_cost{1, 2, 0}> == 210);  // structural

cost_units oracle(quadratic_cost const& cost, tokens length)
{
  if (length > longest_sample) { return no_cost; }
  cpp_int const work = cpp_int(cost.linear) * length + cpp_int(cost.quadratic) * length * length;
  return ballast_test::as_cost(cpp_rational(work, cpp_int(1) << cost.fraction_bits));
}

// Coefficients of every magnitude, so that small, large and overflowing costs all occur.
quadratic_cost any_cost()
{
  auto const coefficient = [] {
    return std::numeric_limits<std::uint64_t>::max() >> *rc::gen::inRange(0, 64);
  };
  return {.linear = *rc::gen::inRange<std::uint64_t>(0, coefficient()),
          .quadratic = *rc::gen::inRange<std::uint64_t>(0, coefficient()),
          .fraction_bits = *rc::gen::inRange<std::uint32_t>(0, 128)};
}

tokens any_length()
{
  return *rc::gen::inRange<tokens>(0, (longest_sample >> *rc::gen::inRange(0, 31)) + 2);
}

RC_GTEST_PROP(QuadraticCost, IsTheFormulaRoundedOrOverflow, ())  // Ensures (1) (2)
{
  quadratic_cost const cost = any_cost();
  tokens const length = any_length();
  RC_ASSERT(cost(length) == oracle(cost, length));
}

RC_GTEST_PROP(QuadraticCost, GrowsWithLength, ())  // Ensures (3)
{
  quadratic_cost const cost = any_cost();
  tokens const length = any_length();
  RC_ASSERT(cost(length) <= cost(length + *rc::gen::inRange<tokens>(0, 1000)));
}

RC_GTEST_PROP(QuadraticCost, HasAnAttentionPartFromZeroToTheCost, ())
{
  quadratic_cost const cost = any_cost();
  tokens const length = any_length();
  cost_units const part = cost.attention_part(length);
  RC_ASSERT(part == oracle({0, cost.quadratic, cost.fraction_bits}, length));
  RC_ASSERT(part >= 0);
  RC_ASSERT(part <= cost(length));
}

TEST(QuadraticCost, RoundsHalvesUp)  // Ensures (1)
{
  quadratic_cost const halves{.linear = 1, .quadratic = 0, .fraction_bits = 1};
  EXPECT_EQ(halves(0), 0);
  EXPECT_EQ(halves(1), 1);
  EXPECT_EQ(halves(2), 1);
  EXPECT_EQ(halves(3), 2);
}

TEST(QuadraticCost, IsExactAtTheLimitsOfItsMembers)  // Ensures (1) (2)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t bits = 0; bits <= 127; ++bits) {
    for (quadratic_cost const cost :
         {quadratic_cost{most, most, bits}, quadratic_cost{most, 0, bits},
          quadratic_cost{0, most, bits}, quadratic_cost{0, 0, bits}}) {
      for (tokens const length : {tokens{0}, tokens{1}, longest_sample}) {
        EXPECT_EQ(cost(length), oracle(cost, length)) << bits << ' ' << length;
      }
    }
  }
}

TEST(QuadraticCost, OverflowsExactlyWhereTheCostDoesNotFit)  // Ensures (2)
{
  constexpr auto last = static_cast<std::uint64_t>(no_cost) - 1;
  EXPECT_EQ(quadratic_cost{last}(1), no_cost - 1);
  EXPECT_EQ(quadratic_cost{last + 1}(1), no_cost);
  EXPECT_EQ(quadratic_cost{1}(longest_sample), longest_sample);
  EXPECT_EQ(quadratic_cost{0}(longest_sample + 1), no_cost);
  EXPECT_EQ(quadratic_cost{0}(std::numeric_limits<tokens>::max()), no_cost);
}

TEST(QuadraticCost, HasNoCostForANegativeLength)  // Ensures (2)
{
  EXPECT_EQ(quadratic_cost{1}(-1), ballast::no_cost);
  EXPECT_EQ(quadratic_cost{1}(std::numeric_limits<ballast::tokens>::min()), ballast::no_cost);
}

RC_GTEST_PROP(QuadraticCost, IsQuantisedToTheNearestFixedPointNumbers, ())
{
  auto const coefficient = [] {
    return std::pair(*rc::gen::arbitrary<std::uint32_t>(), *rc::gen::inRange(-200, 40));
  };
  auto const value_of = [](auto const& each) {
    return cpp_rational(each.first) * power_of_two(each.second);
  };
  auto const scaled = [](auto const& each) {
    return scaled_number(each.first).shifted(each.second);
  };
  auto const linear = coefficient();
  auto const quadratic = coefficient();
  cpp_rational const larger = std::max(value_of(linear), value_of(quadratic));

  auto const cost = quantise(scaled(linear), scaled(quadratic));
  if (larger >= power_of_two(64)) {
    RC_ASSERT(cost == std::nullopt);
    return;
  }
  std::uint32_t bits = 127;
  while (bits > 0 && larger * power_of_two(static_cast<int>(bits)) >= power_of_two(63)) { --bits; }
  cpp_rational const scale = power_of_two(static_cast<int>(bits));
  RC_ASSERT(cost->fraction_bits == bits);
  RC_ASSERT(cost->linear == ballast_test::round_half_up(value_of(linear) * scale));
  RC_ASSERT(cost->quadratic == ballast_test::round_half_up(value_of(quadratic) * scale));
}

TEST(QuadraticCost, IsNotQuantisedWhereACoefficientDoesNotFit)
{
  scaled_number const one(1);
  EXPECT_TRUE(quantise(scaled_number(~std::uint64_t{0}), one).has_value());
  EXPECT_EQ(quantise(one.shifted(64), one), std::nullopt);
  EXPECT_EQ(quantise(one, one.shifted(64)), std::nullopt);
}

TEST(QuadraticCostDeathTest, RejectsMoreFractionBitsThanItHasRoomFor)
{
  EXPECT_DEATH((void)(quadratic_cost{1, 1, 128}(1)), "128 fraction bits,");
}

}  // namespace
