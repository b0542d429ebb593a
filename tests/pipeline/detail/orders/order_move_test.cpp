// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/order_move.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"
#include "../../../support/numbered_order.hpp"
#include "../../../support/random_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::detail::order_move;

TEST(OrderMove, SwapsOrMovesOneMicrobatch)
{
  auto const moved = [](order_move move) {
    auto order = ballast_test::numbered_order(5);
    move.apply(order);
    std::vector<int> numbers;
    for (microbatch_id const at : order) { numbers.push_back(static_cast<int>(at)); }
    return numbers;
  };
  EXPECT_EQ(moved({1, 3, true}), (std::vector{0, 3, 2, 1, 4}));
  EXPECT_EQ(moved({3, 1, true}), (std::vector{0, 3, 2, 1, 4}));
  EXPECT_EQ(moved({1, 3, false}), (std::vector{0, 2, 3, 1, 4}));
  EXPECT_EQ(moved({3, 1, false}), (std::vector{0, 3, 1, 2, 4}));
  EXPECT_EQ(moved({0, 4, false}), (std::vector{1, 2, 3, 4, 0}));
  EXPECT_EQ(moved({0, 2, false, 3}), (std::vector{3, 4, 0, 1, 2}));
  EXPECT_EQ(moved({3, 1, false, 2}), (std::vector{0, 3, 4, 1, 2}));
}

TEST(OrderMove, KnowsWhetherItChangesAnOrderOfKinds)
{
  ballast::random_source random(3);
  auto const schedule = ballast_test::chain_schedule(1, 7);
  int unchanged = 0;
  for (int trial = 0; trial < 5'000; ++trial) {
    auto const times = ballast_test::random_times(random, 7, 1, 1);
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast::detail::microbatch_kinds const kinds({schedule, times}, scratch);
    auto order = ballast_test::numbered_order(7);
    random.shuffle(std::span(order));
    auto const of_kinds = [&kinds](auto const& of) {
      std::vector<std::size_t> found;
      for (auto const each : of) { found.push_back(kinds.of[ballast::to_index(each)]); }
      return found;
    };
    auto const before = of_kinds(order);
    auto const block = static_cast<std::size_t>(random.between(1, 5));
    bool const swaps = block == 1 && random.below(2) == 0;
    order_move const move{random.below(8 - block), random.below(8 - block), swaps, block};
    auto after = order;
    move.apply(after);
    EXPECT_EQ(move.changes(order, kinds), of_kinds(after) != before);
    unchanged += of_kinds(after) == before ? 1 : 0;
  }
  EXPECT_GT(unchanged, 100);
}

}  // namespace
