#include <ballast/partition/detail/search/bag_fillings.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::bag_fillings;
using ballast::detail::filling_progress;
using testing::ElementsAre;

using bag_costs = std::vector<cost_units>;

/// All fillings of one bag, each as the costs in it, heaviest first.
std::vector<bag_costs> fillings_of(std::vector<cost_units> const& costs, filling_progress bag)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  bag_fillings fillings(costs.size(), scratch);
  fillings.reset();
  fillings.clear();
  for (std::size_t place = 0; place < costs.size(); ++place) { fillings.add(place, costs[place]); }
  fillings.sum_up();

  std::vector<bag_costs> all;
  ballast::detail::work_budget nodes(1'000'000);
  while (fillings.next(bag, nodes)) {
    bag_costs& one = all.emplace_back();
    cost_units left_empty = bag.room;
    if (bag.takes_heaviest) { one.push_back(costs.front()); }
    for (auto const& pick : fillings.picks(bag)) {
      one.push_back(costs[fillings.places()[pick.index]]);
    }
    for (cost_units const cost : one) { left_empty -= cost; }
    EXPECT_EQ(fillings.left_empty(), left_empty);
  }
  EXPECT_FALSE(nodes.spent());
  EXPECT_EQ(fillings.pick_count(), 0U);
  return all;
}

TEST(BagFillings, ComeWithFewSamplesFirstAndMuchWasteLast)
{
  filling_progress const bag{.room = 10, .waste = 4, .fair_waste = 1, .average = 2};
  // 7 + 1 + 1 misses 3, which has room for both of 1, and 9 alone misses 1.
  EXPECT_THAT(fillings_of({9, 7, 3, 1, 1}, bag), ElementsAre(bag_costs{9, 1}, bag_costs{7, 3}));
  // Three samples are above the average of two. 5 + 4 misses 1.
  EXPECT_THAT(fillings_of({7, 5, 4, 2, 1}, bag),
              ElementsAre(bag_costs{7, 2, 1}, bag_costs{5, 4, 1}));
  // 7 alone wastes more than the fair share, and 6 alone misses 7.
  EXPECT_THAT(fillings_of({7, 6, 4}, bag), ElementsAre(bag_costs{6, 4}, bag_costs{7}));
}

TEST(BagFillings, TakeTheHeaviestWhereTheyHaveTo)
{
  filling_progress const bag{
      .room = 10, .waste = 4, .fair_waste = 4, .average = 3, .takes_heaviest = true};
  EXPECT_THAT(fillings_of({6, 5, 5, 4}, bag), ElementsAre(bag_costs{6, 4}));
  EXPECT_THAT(fillings_of({8, 5, 5, 4}, bag), ElementsAre(bag_costs{8}));
  EXPECT_THAT(fillings_of({5, 3, 2}, bag), ElementsAre(bag_costs{5, 3, 2}));
}

TEST(BagFillings, LeaveABagEmptyOnlyWhereNothingHasRoom)
{
  filling_progress const bag{.room = 3, .waste = 5, .fair_waste = 5, .average = 1};
  EXPECT_THAT(fillings_of({}, bag), ElementsAre(bag_costs{}));
  EXPECT_THAT(fillings_of({4}, bag), ElementsAre(bag_costs{}));
  EXPECT_THAT(fillings_of({4, 1}, bag), ElementsAre(bag_costs{1}));
  filling_progress const from_second{
      .room = 3, .waste = 5, .fair_waste = 5, .average = 1, .from = 1};
  EXPECT_THAT(fillings_of({3}, from_second), ElementsAre(bag_costs{}));
}

TEST(BagFillings, StopWithoutNodes)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  bag_fillings fillings(1, scratch);
  fillings.reset();
  fillings.clear();
  fillings.add(0, 5);
  fillings.sum_up();
  filling_progress bag{.room = 5, .average = 1};
  ballast::detail::work_budget nodes(1);
  EXPECT_FALSE(fillings.next(bag, nodes));
  EXPECT_TRUE(nodes.spent());
}

bool has_room_for_more(bag_costs const& held, std::vector<cost_units> rest, cost_units left_empty)
{
  for (cost_units const cost : held) { rest.erase(std::ranges::find(rest, cost)); }
  return std::ranges::any_of(rest, [=](cost_units cost) { return cost <= left_empty; });
}

TEST(BagFillings, AreThereWheneverSomeSetFillsTheBag)
{
  ballast::random_source random(31);
  int fillable = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<cost_units> costs(1 + random.below(9));
    for (auto& cost : costs) { cost = random.between(1, trial % 2 == 0 ? 9 : 60); }
    std::ranges::sort(costs, std::greater{});
    filling_progress bag{.room = random.between(costs.front(), 3 * costs.front()),
                         .waste = random.between(0, 6),
                         .average = 1 + random.below(4),
                         .takes_heaviest = random.below(2) == 0};
    bag.fair_waste = bag.waste / 3;

    bool some_set = false;
    for (unsigned set = 0; set < (1U << costs.size()); ++set) {
      if (bag.takes_heaviest && set % 2 == 0) { continue; }
      cost_units left_empty = bag.room;
      for (std::size_t place = 0; place < costs.size(); ++place) {
        left_empty -= (set >> place) % 2 == 0 ? 0 : costs[place];
      }
      some_set = some_set || (left_empty >= 0 && left_empty <= bag.waste);
    }
    auto fillings = fillings_of(costs, bag);
    ASSERT_EQ(!fillings.empty(), some_set);
    fillable += some_set ? 1 : 0;

    for (bag_costs const& one : fillings) {
      cost_units left_empty = bag.room;
      for (cost_units const cost : one) { left_empty -= cost; }
      ASSERT_GE(left_empty, 0);
      ASSERT_LE(left_empty, bag.waste);
      ASSERT_FALSE(has_room_for_more(one, costs, left_empty));
    }
    std::ranges::sort(fillings);
    ASSERT_TRUE(std::ranges::adjacent_find(fillings) == fillings.end());  // none comes twice
  }
  EXPECT_GT(fillable, 1000);
}

}  // namespace
