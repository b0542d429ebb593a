// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/detail/bars_by_row.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace {

using ballast::detail::bars_by_row;
using testing::ElementsAre;
using testing::IsEmpty;

struct bar_of_row {
  std::size_t row = 0;
  double start = 0;
};

std::size_t row_of(bar_of_row const& each)
{
  return each.row;
}

TEST(BarsByRow, AreThoseOfTheRowByStartThenNumber)
{
  std::vector<bar_of_row> const bars = {{2, 5}, {0, 1}, {2, 3}, {2, 5}, {0, 0}};
  bars_by_row const sorted(bars, 4, row_of);
  EXPECT_THAT(sorted[0], ElementsAre(4, 1));
  EXPECT_THAT(sorted[1], IsEmpty());
  EXPECT_THAT(sorted[2], ElementsAre(2, 0, 3));
  EXPECT_THAT(sorted[3], IsEmpty());
  EXPECT_THAT(bars_by_row(std::vector<bar_of_row>{}, 1, row_of)[0], IsEmpty());
}

TEST(BarsByRow, AreThoseOfAMap)
{
  ballast::random_source random(31);
  for (int trial = 0; trial < 200; ++trial) {
    std::size_t const rows = 1 + random.below(6);
    std::vector<bar_of_row> bars(random.below(60));
    std::map<std::size_t, std::vector<std::pair<double, std::size_t>>> expected;
    for (std::size_t number = 0; number < bars.size(); ++number) {
      bars[number] = {random.below(rows), static_cast<double>(random.below(8)) / 4};
      expected[bars[number].row].emplace_back(bars[number].start, number);
    }
    bars_by_row const sorted(bars, rows, row_of);
    for (std::size_t row = 0; row < rows; ++row) {
      std::sort(expected[row].begin(), expected[row].end());
      ASSERT_EQ(sorted[row].size(), expected[row].size());
      for (std::size_t at = 0; at < sorted[row].size(); ++at) {
        ASSERT_EQ(sorted[row][at], expected[row][at].second);
      }
    }
  }
}

}  // namespace
