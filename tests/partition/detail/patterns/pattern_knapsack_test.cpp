#include <ballast/partition/detail/patterns/pattern_knapsack.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::pattern_knapsack;

struct knapsack_item {
  cost_units cost;
  std::int32_t worth;
};

/// Tries all sets of the first items; with `last` >= 0 those that have that item.
std::int32_t most_worth_of_all_sets(std::vector<knapsack_item> const& items, std::size_t first,
                                    cost_units room, int last)
{
  std::int32_t best = -1;
  for (std::uint32_t set = 0; set < (1U << first); ++set) {
    if (last >= 0 && (set >> last & 1U) == 0) { continue; }
    cost_units cost = 0;
    std::int32_t worth = 0;
    for (std::size_t each = 0; each < first; ++each) {
      if ((set >> each & 1U) == 0) { continue; }
      cost += items[each].cost;
      worth += items[each].worth;
    }
    if (cost <= room) { best = std::max(best, worth); }
  }
  return best;
}

TEST(PatternKnapsack, AgreesWithAllSets)
{
  ballast::random_source random(20261101);
  ballast::workspace memory;
  auto scratch = memory.open();
  pattern_knapsack knapsack(11 * 41, 10, scratch);
  for (int trial = 0; trial < 300; ++trial) {
    cost_units const room = random.between(1, 40);
    std::vector<knapsack_item> items(random.below(11));
    for (knapsack_item& each : items) {
      each = {random.between(1, room), static_cast<std::int32_t>(random.below(20))};
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ASSERT_TRUE(knapsack.has_room_for(items.size(), room));
    knapsack.clear(room);
    for (knapsack_item const each : items) { knapsack.add(each.cost, each.worth); }

    EXPECT_EQ(knapsack.size(), items.size());
    EXPECT_EQ(knapsack.most_worth(), most_worth_of_all_sets(items, items.size(), room, -1));
    for (std::size_t last = 0; last < items.size(); ++last) {
      cost_units cost = 0;
      std::int32_t worth = 0;
      std::size_t before = items.size();
      knapsack.best_set_with(last, [&](std::size_t each) {
        EXPECT_LT(each, before) << "downwards";
        EXPECT_TRUE(before < items.size() || each == last);
        before = each;
        cost += items[each].cost;
        worth += items[each].worth;
      });
      EXPECT_LE(cost, room);
      EXPECT_EQ(worth, most_worth_of_all_sets(items, last + 1, room, static_cast<int>(last)));
    }
  }
}

TEST(PatternKnapsack, KnowsHowLargeItsTableIs)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  pattern_knapsack const knapsack(100, 9, scratch);
  EXPECT_TRUE(knapsack.has_room_for(9, 9));  // 10 times 10 numbers
  EXPECT_FALSE(knapsack.has_room_for(9, 10));
  EXPECT_TRUE(knapsack.has_room_for(4, 19));
  EXPECT_FALSE(knapsack.has_room_for(4, 20));
}

}  // namespace
