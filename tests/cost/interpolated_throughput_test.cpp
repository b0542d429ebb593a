// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/interpolated_throughput.hpp>

#include "../support/exact.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/flops.hpp>

namespace {

using namespace ballast;
using ballast_test::cpp_int;
using ballast_test::cpp_rational;
using ballast_test::exact;
using testing::HasSubstr;

static_assert(std::regular<interpolated_throughput>);

struct table {
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

table any_table(std::size_t most, tokens step)
{
  table measured;
  tokens length = 0;
  auto const count = *rc::gen::inRange<std::size_t>(1, most + 1);
  for (std::size_t i = 0; i < count; ++i) {
    length += *rc::gen::inRange<tokens>(1, step);
    measured.lengths.push_back(length);
    measured.per_second.push_back(*rc::gen::inRange(1, 1000) * 1e12);
  }
  return measured;
}

table any_speed()
{
  return any_table(8, 20'000);
}

interpolated_throughput constant(double per_second)
{
  return interpolated_throughput::make(std::vector<tokens>{1}, std::vector<double>{per_second})
      .value();
}

RC_GTEST_PROP(InterpolatedThroughput, IsCloseToStraightLines, ())  // Ensures (1) (2)
{
  table const measured = any_table(interpolated_throughput::most_lengths, 50'000'000);
  tokens const length = *rc::gen::element(*rc::gen::inRange<tokens>(0, longest_sample),
                                          *rc::gen::elementOf(measured.lengths));
  auto const work = *rc::gen::inRange<std::uint64_t>(
      0, std::numeric_limits<std::uint64_t>::max() >> *rc::gen::inRange(0, 60));
  auto const curve = measured.curve();

  cpp_rational const speed = measured.at(length);
  cpp_rational const slack =
      exact(std::ranges::max(measured.per_second)) * ballast_test::power_of_two(-60);
  cpp_rational const second(1'000'000'000'000);
  cost_units const found = curve.picoseconds(work, length);
  RC_ASSERT(found + cpp_rational(1, 2) >= second * work / (speed + slack));
  RC_ASSERT(found - cpp_rational(1, 2) <= second * work / (speed - slack));
}

TEST(InterpolatedThroughput, IsOnePerPicosecondByDefault)
{
  EXPECT_EQ(interpolated_throughput().picoseconds(12345, 7), 12345);
  EXPECT_EQ(interpolated_throughput().picoseconds(0, 0), 0);
}

TEST(InterpolatedThroughput, SaysWhereTheTimeDoesNotFit)
{
  constexpr uint128 one = 1;
  constexpr auto last = static_cast<std::uint64_t>(no_cost) - 1;
  EXPECT_EQ(interpolated_throughput().picoseconds(last, 1), no_cost - 1);
  EXPECT_EQ(interpolated_throughput().picoseconds(last + 1, 1), no_cost);
  for (double const per_second : {1.0, 12345.0, 1e12, 1e18}) {
    auto const curve = constant(per_second);
    EXPECT_EQ(curve.picoseconds(one << 127, 1), no_cost) << per_second;
    // The largest work that takes less than 2^63 - 1 ps, up to the rounding of the throughput.
    auto const exact_limit = exact(per_second) * no_cost / 1'000'000'000'000;
    auto const limit =
        static_cast<uint128>(cpp_int(numerator(exact_limit) / denominator(exact_limit)));
    EXPECT_LT(curve.picoseconds(limit - limit / 1000, 1), no_cost) << per_second;
    EXPECT_EQ(curve.picoseconds(limit + limit / 1000 + 1, 1), no_cost) << per_second;
  }
}

TEST(InterpolatedThroughput, NamesTheMeasurementThatIsWrong)
{
  using limits = std::numeric_limits<double>;
  struct example {
    table measured;
    std::size_t position;
    char const* hint;
  };
  std::vector<tokens> const too_many(interpolated_throughput::most_lengths + 1, 1);
  for (auto const& [measured, position, hint] :
       std::vector<example>{{{{}, {}}, 0, "has 0 positions"},
                            {{too_many, {}}, 33, "has 33 positions; give 1 to 32"},
                            {{{0}, {1e12}}, 0, "position 0"},
                            {{{5, 5}, {1e12, 1e12}}, 1, "position 1 of a throughput axis is 5"},
                            {{{5, 4}, {1e12, 1e12}}, 1, "increasing numbers from 6"},
                            {{{longest_sample + 1}, {1e12}}, 0, "position 0"},
                            {{{1, 2}, {1e12}}, 1, "per_second has 1 entry for 2 lengths"},
                            {{{1, 2}, {1e12, 0}}, 1, "throughput 1"},
                            {{{1, 2}, {-1e12, 1e12}}, 0, "throughput 0"},
                            {{{1, 2}, {1e12, limits::quiet_NaN()}}, 1, "throughput 1"},
                            {{{1, 2}, {1e12, limits::infinity()}}, 1, "throughput 1"},
                            {{{1, 2}, {1e12, 2e18}}, 1, "throughput 1"},
                            {{{1, 2}, {1e12, 0.5}}, 1, "throughput 1"}}) {
    ballast_test::expect_refused(
        interpolated_throughput::make(measured.lengths, measured.per_second),
        error_code::out_of_range, position, hint);
  }
}

TEST(InterpolatedThroughput, CoversTheRangeOfThroughputsItAccepts)  // Ensures (2)
{
  std::vector<tokens> const lengths = {1, 2};
  std::vector<double> const per_second = {1, 1e18};
  auto const curve = interpolated_throughput::make(lengths, per_second).value();
  EXPECT_EQ(curve.picoseconds(1'000'000'000, 2), 1000);
  // One per second next to 1e18: within a 2^-60 part of the latter, which is nearly itself.
  EXPECT_NEAR(static_cast<double>(curve.picoseconds(1, 1)), 1e12, 0.5e12);
}

TEST(InterpolatedThroughputDeathTest, RejectsANegativeLength)
{
  EXPECT_DEATH((void)interpolated_throughput().picoseconds(1, -1), "a sample of -1 tokens");
}

static_assert(std::regular<throughput_grid>);

RC_GTEST_PROP(ThroughputGrid, IsBilinear, ())  // Ensures (1)
{
  std::vector<tokens> x;
  std::vector<std::int64_t> y;
  tokens at = 0;
  while (x.size() < *rc::gen::inRange<std::size_t>(1, 33)) {
    x.push_back(at += *rc::gen::inRange(1, 10'000));
  }
  at = 0;
  while (y.size() < *rc::gen::inRange<std::size_t>(1, 9)) {
    y.push_back(at += *rc::gen::inRange(1, 8));
  }
  std::vector<double> z(x.size() * y.size());
  for (double& speed : z) { speed = *rc::gen::inRange(1, 1000) * 1e12; }

  auto const length =
      *rc::gen::element(*rc::gen::inRange<tokens>(0, x.back() + 100), *rc::gen::elementOf(x));
  auto const degree =
      *rc::gen::element(*rc::gen::inRange<std::int64_t>(1, y.back() + 3), *rc::gen::elementOf(y));
  // The weight of each knot along an axis, by its hat function.
  auto const weight = [](std::vector<std::int64_t> const& axis, std::size_t i, std::int64_t place) {
    place = std::clamp(place, axis.front(), axis.back());
    if (place == axis[i]) { return cpp_rational(1); }
    if (i > 0 && axis[i - 1] < place && place < axis[i]) {
      return cpp_rational(place - axis[i - 1], axis[i] - axis[i - 1]);
    }
    if (i + 1 < axis.size() && axis[i] < place && place < axis[i + 1]) {
      return cpp_rational(axis[i + 1] - place, axis[i + 1] - axis[i]);
    }
    return cpp_rational(0);
  };
  cpp_rational speed = 0;
  for (std::size_t row = 0; row < y.size(); ++row) {
    for (std::size_t column = 0; column < x.size(); ++column) {
      speed +=
          weight(y, row, degree) * weight(x, column, length) * exact(z[row * x.size() + column]);
    }
  }

  cpp_rational const work = 1'000'000'000;
  cpp_rational const slack = exact(std::ranges::max(z)) * ballast_test::power_of_two(-59);
  auto const found =
      throughput_grid::make(x, y, z).value().at(degree).picoseconds(1'000'000'000, length);
  cpp_rational const second(1'000'000'000'000);
  RC_ASSERT(found + cpp_rational(1, 2) >= second * work / (speed + slack));
  RC_ASSERT(found - cpp_rational(1, 2) <= second * work / (speed - slack));
}

TEST(ThroughputGrid, IsOnePerPicosecondByDefault)
{
  EXPECT_EQ(throughput_grid().at(4).picoseconds(77, 100), 77);
}

TEST(ThroughputGrid, NamesWhatIsWrong)
{
  auto const message = [](std::vector<tokens> const& x, std::vector<std::int64_t> const& y,
                          std::vector<double> const& z) {
    return throughput_grid::make(x, y, z).error().message;
  };
  EXPECT_THAT(message({}, {1}, {}), HasSubstr("has 0 positions; give 1 to 32"));
  EXPECT_THAT(message({1}, {}, {}), HasSubstr("has 0 positions; give 1 to 8"));
  EXPECT_THAT(message({1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {}), HasSubstr("has 9 positions"));
  EXPECT_THAT(message({1}, {2, 1}, {1e12, 1e12}),
              HasSubstr("position 1 of a throughput axis is 1"));
  EXPECT_THAT(message({1, 2}, {1, 2}, {1e12}), HasSubstr("per_second has 1 entry for 2 lengths"));
  EXPECT_THAT(message({1, 2}, {1, 2}, {1e12, 1e12, 1e12, std::numeric_limits<double>::quiet_NaN()}),
              HasSubstr("throughput 3"));
}

TEST(ThroughputGridDeathTest, RejectsADegreeOfZero)
{
  EXPECT_DEATH((void)throughput_grid().at(0), "a degree of 0,");
}

static_assert(ballast::cost_model<interpolated_cost>);
static_assert(std::regular<interpolated_cost>);

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
  RC_ASSERT(cost(length) ==
            ballast::saturating_sum(cost.linear.picoseconds(linear.exact(length), length),
                                    cost.attention.picoseconds(attention.exact(length), length)));
}

TEST(InterpolatedCost, ReadsEachTableAtTheSamplesLength)  // Ensures (1)
{
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
  EXPECT_EQ(interpolated_cost()(-1), no_cost);
}

using packed_lengths = std::vector<tokens>;

static_assert(ballast::cost_model<interpolated_cost, std::span<tokens const>>);
static_assert(ballast::cost_model<interpolated_cost, packed_lengths>);

packed_lengths any_packed_lengths()
{
  return *rc::gen::container<packed_lengths>(*rc::gen::inRange<std::size_t>(0, 12),
                                             rc::gen::inRange<tokens>(0, 40'000));
}

RC_GTEST_PROP(PackedCost, PassesTheWeightsTogetherAndAttentionOneByOne, ())  // Ensures (1) (2) (3)
{
  table const linear = any_speed();
  table const attention = any_speed();
  interpolated_cost const cost{.linear = linear.curve(),
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
  interpolated_cost const cost{
      .linear = any_speed().curve(),
      .attention = any_speed().curve(),
      .flops = {*rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64),
                *rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64)}};
  tokens const length = *rc::gen::inRange<tokens>(-5, longest_sample) >> *rc::gen::inRange(0, 31);
  RC_ASSERT(cost(packed_lengths{length}) == cost(length));
}

RC_GTEST_PROP(PackedCost, IsTheSumOfItsPartsInAnyOrder, ())  // Ensures (3)
{
  interpolated_cost const cost{.linear = any_speed().curve(),
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
  // Measured FLOP per second: of the weights over the tokens of a pack, of attention over a sample.
  std::array<ballast::tokens, 3> const lengths = {1024, 4096, 16384};
  std::array<double, 3> const linear = {250e12, 400e12, 400e12};
  std::array<double, 3> const attention = {120e12, 240e12, 300e12};
  ballast::interpolated_cost const cost{
      .linear = ballast::interpolated_throughput::make(lengths, linear).value(),
      .attention = ballast::interpolated_throughput::make(lengths, attention).value(),
      .flops = ballast::forward_flops(ballast::classic_transformer(4096, 32)).value()};

  std::array<ballast::tokens, 4> const four = {1024, 1024, 1024, 1024};
  std::array<ballast::tokens, 1> const one = {4096};
  EXPECT_EQ(cost(four), 150'266'589'129);  // picoseconds: 150 ms, packed
  EXPECT_EQ(cost(one), 168'591'782'926);   // as many tokens that all attend to each other
  EXPECT_EQ(4 * cost(std::span(four).first(1)), 229'431'426'328);  // four calls
}

TEST(PackedCost, IsNoneWhereALengthOrASumDoesNotFit)  // Ensures (4)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  interpolated_cost const cost{.linear = {}, .attention = {}, .flops = {1, 0}};
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

  interpolated_cost const slow{.linear = {}, .attention = {}, .flops = {most, most}};
  EXPECT_EQ(slow(packed_lengths{}), 0);
  EXPECT_EQ(slow(packed_lengths{0}), 0);
  EXPECT_EQ(slow(packed_lengths{1}), no_cost);
  // Each fits alone, and so do the weights; together they do not.
  interpolated_cost const together{.linear = {}, .attention = {}, .flops = {0, most / 4}};
  EXPECT_EQ(together(packed_lengths{1}), static_cast<cost_units>(most / 4));
  EXPECT_EQ(together(packed_lengths{1, 1}), no_cost - 1);
  EXPECT_EQ(together(packed_lengths{1, 1, 1}), no_cost);
  interpolated_cost const with_weights{
      .linear = {}, .attention = {}, .flops = {most / 4, most / 4}};
  EXPECT_EQ(with_weights(packed_lengths{1, 1}), no_cost);
}

}  // namespace
