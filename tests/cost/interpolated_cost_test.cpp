// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/interpolated_cost.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/cost/concepts.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/cost/throughput_grid.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::exact_flops;
using ballast::flop_polynomial;
using ballast::interpolated_cost;
using ballast::interpolated_throughput;
using ballast::longest_sample;
using ballast::no_cost;
using ballast::tokens;

static_assert(ballast::cost_model<interpolated_cost>);
static_assert(std::regular<interpolated_cost>);

interpolated_throughput constant(double per_second)
{
  return interpolated_throughput::make(std::vector<tokens>{1}, std::vector<double>{per_second})
      .value();
}

RC_GTEST_PROP(InterpolatedCost, IsTheTimeOfBothKindsOfWork, ())  // Ensures (1) (2)
{
  auto const coefficient = [] {
    return *rc::gen::inRange<std::uint64_t>(
        0, std::numeric_limits<std::uint64_t>::max() >> *rc::gen::inRange(0, 60));
  };
  interpolated_cost const cost{.linear = constant(3e14),
                               .attention = constant(2e14),
                               .flops = {coefficient(), coefficient()}};
  auto const length =
      *rc::gen::inRange<tokens>(0, (longest_sample >> *rc::gen::inRange(0, 31)) + 1);
  flop_polynomial const linear{.linear = cost.flops.linear};
  flop_polynomial const attention{.quadratic = cost.flops.quadratic};
  RC_ASSERT(
      cost(length) ==
      ballast::saturating_sum(cost.linear.picoseconds(exact_flops(linear, length), length),
                              cost.attention.picoseconds(exact_flops(attention, length), length)));
}

TEST(InterpolatedCost, ReadsEachTableAtTheSamplesLength)  // Ensures (1)
{
  // [interpolated]
  // Measured FLOP per second of one module at three lengths: of attention, which gains from long
  // samples, and of the products with weights, which are fast from the start.
  std::array<ballast::tokens, 3> const lengths = {1024, 4096, 16384};
  std::array<double, 3> const attention = {120e12, 240e12, 300e12};
  std::array<double, 3> const linear = {380e12, 400e12, 400e12};

  ballast::interpolated_cost const cost{
      .linear = ballast::interpolated_throughput::make(lengths, linear).value(),
      .attention = ballast::interpolated_throughput::make(lengths, attention).value(),
      .flops = ballast::forward_flops(ballast::classic_transformer(4096, 32)).value()};

  EXPECT_EQ(cost(1024), 39'302'718'274);   // picoseconds: 39 ms
  EXPECT_EQ(cost(2560), 103'666'561'059);  // halfway: 390 and 180 TFLOP per second
  EXPECT_EQ(cost(16384), 996'890'542'516);
  // [interpolated]
}

TEST(InterpolatedCost, TakesACurveOutOfAGrid)
{
  std::vector<tokens> const lengths = {1000};
  std::vector<std::int64_t> const degrees = {1, 4};
  auto const grid =
      ballast::throughput_grid::make(lengths, degrees, std::vector{1e12, 4e12}).value();
  interpolated_cost cost{.linear = grid.at(1), .attention = grid.at(1), .flops = {100, 1}};
  EXPECT_EQ(cost(1000), 1'100'000);
  cost.linear = grid.at(2);
  cost.attention = grid.at(2);
  EXPECT_EQ(cost(1000), 550'000);
}

TEST(InterpolatedCost, FollowsMeasurementsThatFallWithLength)
{
  std::vector<tokens> const lengths = {10, 11};
  interpolated_cost const cost{
      .linear = interpolated_throughput::make(lengths, std::vector{1e12, 2e12}).value(),
      .attention = {},
      .flops = {1000, 0}};
  EXPECT_GT(cost(10), cost(11));
}

TEST(InterpolatedCost, OverflowsWhereTheTimeDoesNotFit)  // Ensures (2)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  interpolated_cost const slow{
      .linear = constant(1), .attention = constant(1), .flops = {most, most}};
  EXPECT_EQ(slow(0), 0);
  EXPECT_EQ(slow(1), no_cost);
  EXPECT_EQ(slow(longest_sample), no_cost);
  EXPECT_EQ(interpolated_cost()(longest_sample + 1), no_cost);
  EXPECT_EQ(interpolated_cost()(longest_sample), 0);
}

TEST(InterpolatedCost, HasNoCostForANegativeLength)  // Ensures (2)
{
  EXPECT_EQ(interpolated_cost()(-1), ballast::no_cost);
}

}  // namespace
