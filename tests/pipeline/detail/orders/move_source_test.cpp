// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/move_source.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"
#include "../../../support/numbered_order.hpp"
#include "../../../support/random_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace {

using ballast::detail::move_source;
using ballast::detail::order_move;

std::size_t distance_of(order_move const& move)
{
  return std::max(move.from, move.to) - std::min(move.from, move.to);
}

TEST(MoveSource, DrawsEveryPairOfPlacesInBothDirectionsSwappedOrNot)
{
  ballast::random_source random(7);
  for (std::size_t const count : {2U, 3U, 12U}) {
    SCOPED_TRACE(testing::Message() << count << " microbatches");
    auto const schedule = ballast_test::chain_schedule(2, count);
    auto const times = ballast_test::random_times(random, count, 2, 1'000'000);
    ballast::workspace memory;
    auto scratch = memory.open();
    move_source const moves({schedule, times}, scratch);
    auto const order = ballast_test::numbered_order(count);
    std::vector<int> swapped(count * count, 0);
    std::vector<int> moved(count * count, 0);
    std::size_t longest_block = 0;
    for (int draw = 0; draw < 20'000; ++draw) {
      order_move const move = moves.draw(random, order, count);
      ASSERT_LE(std::max(move.from, move.to) + move.block, count);
      ASSERT_TRUE(move.block == 1 || !move.swaps);
      longest_block = std::max(longest_block, move.block);
      if (move.block == 1) { ++(move.swaps ? swapped : moved)[move.from * count + move.to]; }
    }
    EXPECT_EQ(longest_block, std::min<std::size_t>(5, count - 1));
    for (std::size_t pair = 0; pair < count * count; ++pair) {
      bool const itself = pair / count == pair % count;
      EXPECT_EQ(swapped[pair] == 0, itself) << pair << " of " << count;
      EXPECT_EQ(moved[pair] == 0, itself) << pair << " of " << count;
    }
  }
}

TEST(MoveSource, SwapsSimilarMicrobatchesMoreOftenThanOthers)
{
  constexpr std::size_t count = 20;
  auto const schedule = ballast_test::chain_schedule(1, count);
  ballast::pipeline_times times(count, 1);
  for (std::size_t each = 0; each < count; ++each) {
    times.rows[each].forward = static_cast<ballast::time_units>(each);  // like its neighbours
  }
  ballast::workspace memory;
  auto scratch = memory.open();
  move_source const moves({schedule, times}, scratch);
  auto const order = ballast_test::numbered_order(count);
  ballast::random_source random(3);
  int similar = 0;
  int swaps = 0;
  for (int draw = 0; draw < 20'000; ++draw) {
    order_move const move = moves.draw(random, order, count);
    swaps += move.swaps ? 1 : 0;
    similar += move.swaps && distance_of(move) <= 3 ? 1 : 0;
  }
  EXPECT_NEAR(swaps, 12'000, 300);
  EXPECT_GT(similar * 10, swaps * 5);  // 3 in 10 of any two
}

TEST(MoveSource, MovesOneMicrobatchNoFartherThanItIsTold)
{
  constexpr std::size_t count = 30;
  ballast::random_source random(5);
  auto const schedule = ballast_test::chain_schedule(2, count);
  auto const times = ballast_test::random_times(random, count, 2, 1'000'000);
  ballast::workspace memory;
  auto scratch = memory.open();
  move_source const moves({schedule, times}, scratch);
  auto const order = ballast_test::numbered_order(count);
  for (std::size_t const farthest : {1U, 8U, 29U, 40U}) {
    std::size_t longest = 0;
    for (int draw = 0; draw < 40'000; ++draw) {
      order_move const move = moves.draw(random, order, farthest);
      if (!move.swaps && move.block == 1) { longest = std::max(longest, distance_of(move)); }
    }
    EXPECT_EQ(longest, std::min(farthest, count - 1));
  }
}

TEST(MoveSource, NearlyAlwaysChangesAnOrderOfKinds)
{
  ballast::random_source random(11);
  auto const schedule = ballast_test::chain_schedule(1, 12);
  int unchanged = 0;
  int drawn = 0;
  for (int trial = 0; trial < 300; ++trial) {
    auto const times = ballast_test::random_times(random, 12, 1, 1);  // up to four kinds
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast::detail::microbatch_kinds const kinds({schedule, times}, scratch);
    move_source const moves({schedule, times}, scratch);
    EXPECT_EQ(moves.kinds(), kinds.count);
    if (kinds.count < 2) { continue; }
    auto order = ballast_test::numbered_order(12);
    random.shuffle(std::span(order));
    for (int draw = 0; draw < 20; ++draw, ++drawn) {
      unchanged += moves.draw(random, order, 12).changes(order, kinds) ? 0 : 1;
    }
  }
  EXPECT_GT(drawn, 5'000);
  EXPECT_LE(unchanged * 1'000, drawn);
}

}  // namespace
