// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/packed_cost.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/cost/concepts.hpp>
#include <ballast/cost/interpolated_cost.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::interpolated_cost;
using ballast::interpolated_throughput;
using ballast::longest_sample;
using ballast::no_cost;
using ballast::packed_cost;
using ballast::tokens;
using ballast_test::cpp_rational;
using ballast_test::exact;

using packed_lengths = std::vector<tokens>;

static_assert(std::regular<packed_cost>);
static_assert(ballast::cost_model<packed_cost, std::span<tokens const>>);
static_assert(ballast::cost_model<packed_cost, packed_lengths>);

struct measured_speed {
  std::vector<tokens> lengths;
  std::vector<double> per_second;

  [[nodiscard]] interpolated_throughput curve() const
  {
    return interpolated_throughput::make(lengths, per_second).value();
  }

  // Straight lines between the measurements, exactly.
  [[nodiscard]] cpp_rational at(tokens length) const
  {
    if (length <= lengths.front()) { return exact(per_second.front()); }
    if (length >= lengths.back()) { return exact(per_second.back()); }
    std::size_t right = 1;
    while (lengths[right] < length) { ++right; }
    cpp_rational const share(length - lengths[right - 1], lengths[right] - lengths[right - 1]);
    return exact(per_second[right - 1]) * (1 - share) + exact(per_second[right]) * share;
  }
};

measured_speed any_speed()
{
  measured_speed speed;
  tokens length = 0;
  auto const count = *rc::gen::inRange<std::size_t>(1, 9);
  for (std::size_t i = 0; i < count; ++i) {
    length += *rc::gen::inRange<tokens>(1, 20'000);
    speed.lengths.push_back(length);
    speed.per_second.push_back(*rc::gen::inRange(1, 1000) * 1e12);
  }
  return speed;
}

packed_lengths any_packed_lengths()
{
  return *rc::gen::container<packed_lengths>(*rc::gen::inRange<std::size_t>(0, 12),
                                             rc::gen::inRange<tokens>(0, 40'000));
}

RC_GTEST_PROP(PackedCost, PassesTheWeightsTogetherAndAttentionOneByOne, ())  // Ensures (1) (2) (3)
{
  measured_speed const linear = any_speed();
  measured_speed const attention = any_speed();
  packed_cost const cost{.linear = linear.curve(),
                         .attention = attention.curve(),
                         .flops = {*rc::gen::inRange<std::uint64_t>(0, 1'000'000'000'000),
                                   *rc::gen::inRange<std::uint64_t>(0, 1'000'000'000)}};
  packed_lengths const lengths = any_packed_lengths();

  tokens const total = std::accumulate(lengths.begin(), lengths.end(), tokens{0});
  cpp_rational const second(1'000'000'000'000);
  cpp_rational picoseconds = second * cost.flops.linear * total / linear.at(total);
  for (tokens const length : lengths) {
    picoseconds += second * cost.flops.quadratic * length * length / attention.at(length);
  }
  // Every term is rounded once; speeds are off by a 2^-60 part of the largest, which is less than a
  // thousand times the smallest.
  cpp_rational const slack = cpp_rational(static_cast<std::int64_t>(lengths.size()) + 1, 2) +
                             picoseconds * ballast_test::power_of_two(10 - 60) * 2;
  RC_ASSERT(abs(picoseconds - cost(lengths)) <= slack);
}

RC_GTEST_PROP(PackedCost, IsThatOfInterpolationForOneSample, ())  // Ensures (3)
{
  packed_cost const cost{
      .linear = any_speed().curve(),
      .attention = any_speed().curve(),
      .flops = {*rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64),
                *rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64)}};
  interpolated_cost const alone{
      .linear = cost.linear, .attention = cost.attention, .flops = cost.flops};
  tokens const length = *rc::gen::inRange<tokens>(-5, longest_sample) >> *rc::gen::inRange(0, 31);
  RC_ASSERT(cost(packed_lengths{length}) == alone(length));
}

RC_GTEST_PROP(PackedCost, IsTheSumOfItsPartsInAnyOrder, ())  // Ensures (3)
{
  packed_cost const cost{.linear = any_speed().curve(),
                         .attention = any_speed().curve(),
                         .flops = {*rc::gen::inRange<std::uint64_t>(0, 1'000'000'000),
                                   *rc::gen::inRange<std::uint64_t>(0, 1'000'000)}};
  packed_lengths lengths = any_packed_lengths();
  cost_units parts = cost.weights(std::accumulate(lengths.begin(), lengths.end(), tokens{0}));
  for (tokens const length : lengths) { parts += cost.attention_of(length); }
  RC_ASSERT(cost(lengths) == parts);
  std::ranges::reverse(lengths);
  RC_ASSERT(cost(lengths) == parts);
}

TEST(PackedCost, UsesTheWeightsOfShortSamplesAsWellAsOfALongOne)
{
  // [packed]
  // Measured FLOP per second: of the weights over the tokens of a pack, of attention over a sample.
  std::array<ballast::tokens, 3> const lengths = {1024, 4096, 16384};
  std::array<double, 3> const linear = {250e12, 400e12, 400e12};
  std::array<double, 3> const attention = {120e12, 240e12, 300e12};
  ballast::packed_cost const cost{
      .linear = ballast::interpolated_throughput::make(lengths, linear).value(),
      .attention = ballast::interpolated_throughput::make(lengths, attention).value(),
      .flops = ballast::forward_flops(ballast::classic_transformer(4096, 32)).value()};

  std::array<ballast::tokens, 4> const four = {1024, 1024, 1024, 1024};
  std::array<ballast::tokens, 1> const one = {4096};
  EXPECT_EQ(cost(four), 150'266'589'129);  // picoseconds: 150 ms, packed
  EXPECT_EQ(cost(one), 168'591'782'926);   // as many tokens that all attend to each other
  EXPECT_EQ(4 * cost(std::span(four).first(1)), 229'431'426'328);  // four calls
  // [packed]
}

TEST(PackedCost, IsAnEncodersWhereItemsAttendToThemselvesAlone)
{
  // 7 items of 3e9 FLOP, at a speed that grows from 1e12 to 2e12 between 4 items and 12.
  packed_cost const encoder{
      .linear =
          interpolated_throughput::make(packed_lengths{4, 12}, std::vector{1e12, 2e12}).value(),
      .attention = {},
      .flops = {.linear = 3'000'000'000}};
  EXPECT_EQ(encoder(packed_lengths{7}), 15'272'727'273);  // 21e9 FLOP at 1.375e12
  EXPECT_EQ(encoder(packed_lengths{1, 2, 4}), encoder(packed_lengths{7}));
}

TEST(PackedCost, OfNothingIsNothing)  // Ensures (3)
{
  packed_cost const cost{.linear = {}, .attention = {}, .flops = {5, 3}};
  EXPECT_EQ(cost(packed_lengths{}), 0);
  EXPECT_EQ(cost(packed_lengths{0, 0}), 0);
}

TEST(PackedCost, IsNoneWhereALengthOrASumDoesNotFit)  // Ensures (4)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  packed_cost const cost{.linear = {}, .attention = {}, .flops = {1, 0}};
  EXPECT_EQ(cost(packed_lengths{longest_sample}), longest_sample);
  for (packed_lengths const& refused :
       {packed_lengths{-1}, packed_lengths{5, -1}, packed_lengths{-1, 5},
        packed_lengths{longest_sample + 1}, packed_lengths{longest_sample, 1},
        packed_lengths{std::numeric_limits<tokens>::max(), std::numeric_limits<tokens>::max()},
        packed_lengths{std::numeric_limits<tokens>::min()}}) {
    EXPECT_EQ(cost(refused), no_cost);
  }
  EXPECT_EQ(cost.weights(-1), no_cost);
  EXPECT_EQ(cost.weights(longest_sample + 1), no_cost);
  EXPECT_EQ(cost.attention_of(-1), no_cost);
  EXPECT_EQ(cost.attention_of(longest_sample + 1), no_cost);

  packed_cost const slow{.linear = {}, .attention = {}, .flops = {most, most}};
  EXPECT_EQ(slow(packed_lengths{0}), 0);
  EXPECT_EQ(slow(packed_lengths{1}), no_cost);
  // Each fits alone, and so do the weights; together they do not.
  packed_cost const together{.linear = {}, .attention = {}, .flops = {0, most / 4}};
  EXPECT_EQ(together(packed_lengths{1}), static_cast<cost_units>(most / 4));
  EXPECT_EQ(together(packed_lengths{1, 1}), no_cost - 1);
  EXPECT_EQ(together(packed_lengths{1, 1, 1}), no_cost);
  packed_cost const with_weights{.linear = {}, .attention = {}, .flops = {most / 4, most / 4}};
  EXPECT_EQ(with_weights(packed_lengths{1, 1}), no_cost);
}

}  // namespace
