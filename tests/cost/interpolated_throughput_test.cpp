// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/interpolated_throughput.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::error_code;
using ballast::interpolated_throughput;
using ballast::longest_sample;
using ballast::no_cost;
using ballast::tokens;
using ballast::uint128;
using ballast_test::cpp_int;
using ballast_test::cpp_rational;
using ballast_test::exact;
using testing::HasSubstr;

static_assert(std::regular<interpolated_throughput>);

struct table {
  std::vector<tokens> lengths;
  std::vector<double> per_second;
};

table any_table()
{
  table measured;
  tokens length = 0;
  auto const count = *rc::gen::inRange<std::size_t>(1, interpolated_throughput::capacity + 1);
  for (std::size_t i = 0; i < count; ++i) {
    length += *rc::gen::inRange<tokens>(1, 50'000'000);
    measured.lengths.push_back(length);
    measured.per_second.push_back(*rc::gen::inRange(1, 1000) * 1e12);
  }
  return measured;
}

// Straight lines between the measurements, exactly.
cpp_rational throughput(table const& measured, tokens length)
{
  auto const& [x, y] = measured;
  if (length <= x.front()) { return exact(y.front()); }
  if (length >= x.back()) { return exact(y.back()); }
  std::size_t right = 1;
  while (x[right] < length) { ++right; }
  cpp_rational const share(length - x[right - 1], x[right] - x[right - 1]);
  return exact(y[right - 1]) * (1 - share) + exact(y[right]) * share;
}

RC_GTEST_PROP(InterpolatedThroughput, IsCloseToStraightLines, ())  // Ensures (1) (2)
{
  table const measured = any_table();
  tokens const length = *rc::gen::element(*rc::gen::inRange<tokens>(0, longest_sample),
                                          *rc::gen::elementOf(measured.lengths));
  auto const work = *rc::gen::inRange<std::uint64_t>(
      0, std::numeric_limits<std::uint64_t>::max() >> *rc::gen::inRange(0, 60));
  auto const curve = interpolated_throughput::make(measured.lengths, measured.per_second).value();

  cpp_rational const speed = throughput(measured, length);
  cpp_rational const slack =
      exact(std::ranges::max(measured.per_second)) * ballast_test::power_of_two(-60);
  cpp_rational const second(1'000'000'000'000);
  cost_units const found = curve.picoseconds(work, length);
  RC_ASSERT(found + cpp_rational(1, 2) >= second * work / (speed + slack));
  RC_ASSERT(found - cpp_rational(1, 2) <= second * work / (speed - slack));
}

TEST(InterpolatedThroughput, IsLinearBetweenAndConstantOutside)  // Ensures (1)
{
  std::vector<tokens> const lengths = {100, 200, 400};
  std::vector<double> const per_second = {1e12, 3e12, 2e12};
  auto const curve = interpolated_throughput::make(lengths, per_second).value();
  auto const time_of = [&](tokens length) { return curve.picoseconds(6'000'000, length); };
  EXPECT_EQ(time_of(0), 6'000'000);
  EXPECT_EQ(time_of(100), 6'000'000);
  EXPECT_EQ(time_of(150), 3'000'000);
  EXPECT_EQ(time_of(200), 2'000'000);
  EXPECT_EQ(time_of(300), 2'400'000);
  EXPECT_EQ(time_of(400), 3'000'000);
  EXPECT_EQ(time_of(longest_sample), 3'000'000);
}

TEST(InterpolatedThroughput, CountsWhateverTheCallerCounts)
{
  // 40,000 tokens per second: a token takes 25 microseconds.
  auto const curve =
      interpolated_throughput::make(std::vector<tokens>{512}, std::vector<double>{40'000}).value();
  EXPECT_EQ(curve.picoseconds(1, 512), 25'000'000);
}

TEST(InterpolatedThroughput, IsOnePerPicosecondByDefault)
{
  EXPECT_EQ(interpolated_throughput().picoseconds(12345, 7), 12345);
  EXPECT_EQ(interpolated_throughput().picoseconds(0, 0), 0);
}

TEST(InterpolatedThroughput, SaysWhereTheTimeDoesNotFit)
{
  auto const at = [](double per_second) {
    return interpolated_throughput::make(std::vector<tokens>{1}, std::vector<double>{per_second})
        .value();
  };
  constexpr uint128 one = 1;
  constexpr auto last = static_cast<std::uint64_t>(no_cost) - 1;
  EXPECT_EQ(interpolated_throughput().picoseconds(last, 1), no_cost - 1);
  EXPECT_EQ(interpolated_throughput().picoseconds(last + 1, 1), no_cost);
  for (double const per_second : {1.0, 12345.0, 1e12, 1e18}) {
    auto const curve = at(per_second);
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
  std::vector<tokens> const too_many(interpolated_throughput::capacity + 1, 1);
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
    auto const failed = interpolated_throughput::make(measured.lengths, measured.per_second);
    ASSERT_FALSE(failed.has_value()) << hint;
    EXPECT_EQ(failed.error().code, error_code::out_of_range);
    EXPECT_EQ(failed.error().position, position) << hint;
    EXPECT_THAT(failed.error().message, HasSubstr(hint));
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

}  // namespace
