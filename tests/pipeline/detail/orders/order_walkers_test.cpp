// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/order_walkers.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstdint>

namespace {

using ballast::time_units;
using ballast::detail::cooled;
using ballast::detail::drawn_threshold;

TEST(Cooled, FallsByHalvings)
{
  constexpr time_units start = 128'000'000;
  EXPECT_EQ(cooled(start, 7, 0, 700), start);
  EXPECT_EQ(cooled(start, 7, 100, 700), start / 2);
  EXPECT_EQ(cooled(start, 7, 700, 700), start / 128);
  EXPECT_EQ(cooled(start, 4, 700, 700), start / 16);
  time_units before = start;
  for (std::uint64_t done = 0; done <= 700; ++done) {
    time_units const now = cooled(start, 7, done, 700);
    EXPECT_LE(now, before);
    before = now;
  }
  EXPECT_EQ(cooled(0, 7, 3, 8), 0);
}

TEST(DrawnThreshold, IsAboveEveryMultipleOfTheScaleHalfAsOftenAsAboveTheOneBefore)
{
  constexpr time_units scale = 1'000'000;
  constexpr std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(drawn_threshold(scale, half), scale - 1);
  EXPECT_EQ(drawn_threshold(scale, half - 1), scale);
  EXPECT_EQ(drawn_threshold(scale, half + half / 2), scale / 2 - 1);
  EXPECT_EQ(drawn_threshold(scale, half / 2 + half / 4), scale + scale / 2 - 1);
  EXPECT_EQ(drawn_threshold(scale, ~std::uint64_t{0}), 0);
  EXPECT_EQ(drawn_threshold(scale, 0), 64 * scale - 1);
  EXPECT_EQ(drawn_threshold(0, 5), 0);
  ballast::random_source random(9);
  int above = 0;
  for (int draw = 0; draw < 10'000; ++draw) {
    above += drawn_threshold(scale, random()) >= 2 * scale ? 1 : 0;
  }
  EXPECT_NEAR(above, 2'500, 200);
}

}  // namespace
