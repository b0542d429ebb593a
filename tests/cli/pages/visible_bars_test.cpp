// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/visible_bars.hpp"  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstddef>
#include <numeric>
#include <vector>

namespace {

struct bar {
  double start = 0;
  double duration = 0;
};

using pages::visible_bar;

std::vector<visible_bar> visible(std::vector<bar> const& bars, std::vector<std::size_t> const& row)
{
  std::vector<visible_bar> all;
  pages::for_each_visible_bar(bars, row, 1, [&](visible_bar const& each) { all.push_back(each); });
  return all;
}

std::vector<std::size_t> numbers(std::vector<bar> const& bars)
{
  std::vector<std::size_t> row(bars.size());
  std::iota(row.begin(), row.end(), std::size_t{0});
  return row;
}

TEST(VisibleBars, AreTheBarsWhereAllCanBeSeen)
{
  std::vector<bar> const bars = {{0, 2}, {2, 1}, {7, 3}};
  auto const row = numbers(bars);
  auto const shown = visible(bars, row);
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[2].start, 7);
  EXPECT_EQ(shown[2].end, 10);
  EXPECT_TRUE(visible(bars, {}).empty());
}

TEST(VisibleBars, HoldEveryBarOnceAndAreBounded)  // Ensures (1) (2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<bar> bars;
    double now = 0;
    for (std::size_t count = random.below(200); count > 0; --count) {
      now += static_cast<double>(random.below(3)) / 8;
      bars.push_back({now, static_cast<double>(random.below(12)) / 8});
      now += bars.back().duration;
    }
    auto const row = numbers(bars);
    auto const shown = visible(bars, row);
    std::size_t at = 0;
    for (std::size_t each = 0; each < shown.size(); ++each) {
      ASSERT_FALSE(shown[each].of.empty());
      ASSERT_EQ(shown[each].of.front(), at);
      at += shown[each].of.size();
      ASSERT_EQ(shown[each].end, bars[at - 1].start + bars[at - 1].duration);
      if (shown[each].of.size() > 1) { ASSERT_LT(shown[each].end - shown[each].start, 1); }
      if (each > 0) { ASSERT_GE(shown[each].end - shown[each - 1].start, 1); }
    }
    ASSERT_EQ(at, bars.size());
  }
}

}  // namespace
