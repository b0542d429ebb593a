// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/order_walkers.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"
#include "../../../support/numbered_order.hpp"
#include "../../../support/pipeline_families.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/simulate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace {

using ballast::time_units;
using ballast::detail::cooled;
using ballast::detail::drawn_threshold;
using ballast::detail::order_walkers;

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

TEST(OrderWalkers, KeepTheShortestOrderAndSpendTheBudget)
{
  using ballast_test::time_family;
  auto const schedule = ballast_test::chain_schedule(4, 12);
  auto const times = ballast_test::times_of(time_family::every_stage_alone, 12, 4, 1);
  for (std::uint64_t const evaluations : {0U, 1U, 5U, 8U, 9U, 70U, 75U, 1'000U, 9'999U}) {
    for (std::size_t const walkers : {1U, 2U, 4U, 8U}) {
      SCOPED_TRACE(testing::Message() << evaluations << " evaluations, " << walkers << " walkers");
      ballast::workspace memory;
      auto scratch = memory.open();
      auto order = ballast_test::numbered_order(12);
      auto const given = makespan_of(schedule, times, order, memory);
      order_walkers searches({schedule, times}, 0, order, given, scratch);
      for (std::size_t each = 0; each < order_walkers::most; ++each) {
        std::ranges::copy(ballast_test::numbered_order(12), searches.start(each).begin());
      }
      ballast::random_source random(1);
      ballast::detail::work_budget budget(evaluations + 3);
      searches.run(walkers, {}, evaluations, random, budget);
      EXPECT_EQ(budget.left(), 3U);
      EXPECT_FALSE(searches.ended(budget));
      EXPECT_EQ(searches.best_makespan(), makespan_of(schedule, times, order, memory));
      EXPECT_TRUE(std::ranges::equal(searches.best(), order));
      EXPECT_LE(searches.best_makespan(), given);
      if (evaluations >= 1'000) { EXPECT_LT(searches.best_makespan(), given); }
      std::ranges::sort(order);
      EXPECT_EQ(order, ballast_test::numbered_order(12));
    }
  }
}

TEST(OrderWalkers, StopAtTheBound)
{
  auto const schedule = ballast_test::chain_schedule(4, 12);
  auto const times = ballast_test::times_of(ballast_test::time_family::every_stage_alone, 12, 4, 1);
  ballast::workspace memory;
  auto scratch = memory.open();
  auto order = ballast_test::numbered_order(12);
  auto const given = makespan_of(schedule, times, order, memory);
  order_walkers searches({schedule, times}, given, order, given, scratch);
  EXPECT_TRUE(searches.ended(ballast::detail::work_budget(5)));
  for (std::size_t each = 0; each < order_walkers::most; ++each) {
    std::ranges::copy(order, searches.start(each).begin());
  }
  ballast::random_source random(1);
  ballast::detail::work_budget budget(5'000);
  searches.run(8, {}, 5'000, random, budget);
  EXPECT_EQ(budget.left(), 4'992U);  // the eight starts
}

}  // namespace
