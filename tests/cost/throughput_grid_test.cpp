// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/throughput_grid.hpp>  // first: proves it is self-contained

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
using ballast::throughput_grid;
using ballast::tokens;
using ballast_test::cpp_rational;
using ballast_test::exact;
using testing::HasSubstr;

static_assert(std::regular<throughput_grid>);

// Rows are degrees, columns are lengths.
std::vector<tokens> const grid_lengths = {1000, 2000, 4000};
std::vector<std::int64_t> const grid_degrees = {1, 2, 8};
std::vector<double> const grid_throughputs = {1e12, 2e12,  3e12,  //
                                              2e12, 4e12,  5e12,  //
                                              5e12, 10e12, 17e12};

throughput_grid grid()
{
  return throughput_grid::make(grid_lengths, grid_degrees, grid_throughputs).value();
}

cost_units time_of(tokens length, std::int64_t degree)
{
  return grid().at(degree).picoseconds(840'000'000, length);
}

TEST(ThroughputGrid, IsWhatWasMeasuredAtItsKnots)  // Ensures (1)
{
  for (std::size_t row = 0; row < grid_degrees.size(); ++row) {
    for (std::size_t column = 0; column < grid_lengths.size(); ++column) {
      cpp_rational const speed = exact(grid_throughputs[row * grid_lengths.size() + column]);
      EXPECT_EQ(time_of(grid_lengths[column], grid_degrees[row]),
                ballast_test::as_cost(cpp_rational(840'000'000) * 1'000'000'000'000 / speed));
    }
  }
}

TEST(ThroughputGrid, IsLinearAlongEachAxis)  // Ensures (1)
{
  EXPECT_EQ(time_of(1500, 1), 560'000'000);  // 1.5 per ps
  EXPECT_EQ(time_of(1000, 5), 240'000'000);  // halfway from 2 to 5: 3.5 per ps
  EXPECT_EQ(time_of(2000, 5), 120'000'000);  // 7 per ps
  EXPECT_EQ(time_of(1500, 5), 160'000'000);  // halfway from 3.5 to 7: 5.25 per ps
}

TEST(ThroughputGrid, HoldsTheNearestMeasurementOutside)  // Ensures (1)
{
  EXPECT_EQ(time_of(1, 1), time_of(1000, 1));
  EXPECT_EQ(time_of(9000, 64), time_of(4000, 8));
  EXPECT_EQ(time_of(3000, 64), time_of(3000, 8));
  std::vector<std::int64_t> const from_four = {4};
  auto const one =
      throughput_grid::make(grid_lengths, from_four, std::vector{1e12, 2e12, 3e12}).value();
  for (std::int64_t const degree : {1, 4, 9}) {
    EXPECT_EQ(one.at(degree).picoseconds(1000, 2000), 500);
  }
}

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

  auto const length = *rc::gen::inRange<tokens>(0, x.back() + 100);
  auto const degree = *rc::gen::inRange<std::int64_t>(1, y.back() + 3);
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
  EXPECT_DEATH((void)grid().at(0), "a degree of 0,");
}

}  // namespace
