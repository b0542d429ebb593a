#include <ballast/partition/detail/capacity/place_within_capacity.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::detail::bags_with_room;
using testing::ElementsAre;

struct step {
  ballast_test::direct_problem given;
  std::vector<bag_id> owner;
  std::vector<cost_units> starts = std::vector<cost_units>(given.step.gpus.size(), 0);
  std::vector<cost_units> loads = starts;
  ballast::workspace memory = {};

  bool shed()
  {
    return with_bags([this](bags_with_room const& bags) {
      return ballast::detail::shed_overrun(given.view(), bags, owner, memory);
    });
  }
  bool place(std::uint64_t most = 1000)
  {
    ballast::detail::work_budget nodes(most);
    return with_bags([this, &nodes](bags_with_room const& bags) {
      return ballast::detail::place_within_capacity(given.view(), bags, starts, owner, nodes,
                                                    memory);
    });
  }
  bool search(std::uint64_t most)
  {
    ballast::detail::work_budget nodes(most);
    return with_bags([this, &nodes](bags_with_room const& bags) {
      std::vector<ballast::priced_sample> by_weight(owner.size());
      ballast::descending_order_into(by_weight, given.weights, memory);
      return ballast::detail::search_all_fillings(given.view(), bags, starts, by_weight, nodes,
                                                  memory);
    });
  }
  bool keeps_to_capacities() const
  {
    std::vector<std::int64_t> held(loads.size(), 0);
    std::vector<cost_units> added = starts;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      if (to_index(owner[sample]) >= loads.size()) { return false; }
      held[to_index(owner[sample])] += given.weights[sample];
      added[to_index(owner[sample])] += given.step.costs[sample];
    }
    return added == loads && std::ranges::equal(held, given.capacities, std::less_equal{});
  }

 private:
  template <class Do>
  bool with_bags(Do const& work)
  {
    auto frame = memory.open();
    loads = starts;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      if (to_index(owner[sample]) < loads.size()) {
        loads[to_index(owner[sample])] += given.step.costs[sample];
      }
    }
    return work(bags_with_room(given.view(), loads, owner, frame));
  }
};

step one_gpu_step(std::vector<cost_units> costs, std::vector<std::int64_t> weights,
                  std::vector<std::int64_t> capacities, std::vector<bag_id> owner)
{
  std::vector<ballast::tokens> lengths(costs.size(), 9);
  std::vector<std::uint32_t> gpus(capacities.size(), 1);
  return {ballast_test::direct_problem({lengths, std::move(costs), gpus}, std::move(weights),
                                       std::move(capacities)),
          std::move(owner)};
}

constexpr bag_id bag_a{0};
constexpr bag_id bag_b{1};

TEST(ShedOverrun, TakesOutWhatWeighsMostForItsWork)
{
  // The first bag is two above its capacity: 5 for 10 would do, and 3 for 1 does with less work.
  step overrun = one_gpu_step({10, 1, 9, 0}, {5, 3, 4, 0}, {10, 10}, {bag_a, bag_a, bag_a, bag_a});
  EXPECT_TRUE(overrun.shed());
  EXPECT_THAT(overrun.owner, ElementsAre(bag_a, bag_b, bag_a, bag_a));
  EXPECT_TRUE(overrun.keeps_to_capacities());
}

TEST(ShedOverrun, KeepsWhatLaterOnesMadeRoomFor)
{
  // One of weight 1 goes first, then one of weight 5, which alone is enough.
  step overrun = one_gpu_step({1, 10, 20}, {1, 5, 9}, {10, 10}, {bag_a, bag_a, bag_a});
  EXPECT_TRUE(overrun.shed());
  EXPECT_THAT(overrun.owner, ElementsAre(bag_a, bag_b, bag_a));
}

TEST(PlaceWithinCapacity, StartsAnewWhereSheddingFindsNoRoom)
{
  // 6 + 4 and 7 + 3 fill both bags; what was shed from 6 + 7 cannot go to 4 + 3.
  step full = one_gpu_step({1, 1, 1, 1}, {6, 7, 4, 3}, {10, 10}, {bag_a, bag_a, bag_b, bag_b});
  EXPECT_TRUE(full.place());
  EXPECT_TRUE(full.keeps_to_capacities());
}

TEST(PlaceWithinCapacity, LeavesOutWhatHasNoRoom)
{
  step full = one_gpu_step({1, 1, 1}, {6, 6, 6}, {10, 10}, {bag_a, bag_a, bag_b});
  EXPECT_FALSE(full.place());
  EXPECT_EQ(std::ranges::count(full.owner, bag_id{2}), 1);
}

TEST(PlaceWithinCapacity, ManagesWithBagsThatHoldNothing)
{
  step none = one_gpu_step({1, 2}, {0, 3}, {0, 3}, {bag_a, bag_a});
  EXPECT_TRUE(none.place());
  EXPECT_EQ(none.owner[1], bag_b);
  step heavy = one_gpu_step({1}, {1}, {0, 0}, {bag_a});
  EXPECT_FALSE(heavy.place());
}

TEST(SearchAllFillings, FindsWhatNoOrderDoes)
{
  // 4 + 4 + 4 and 6 + 3 + 3: heaviest first puts 6 + 4 and then has no room for a 3 and a 4 each.
  std::vector<std::int64_t> const weights{6, 4, 4, 4, 3, 3};
  std::vector<bag_id> const anywhere(6, bag_a);
  EXPECT_TRUE(one_gpu_step({1, 1, 1, 1, 1, 1}, weights, {12, 12}, anywhere).search(1000));
  step found = one_gpu_step({1, 2, 3, 4, 5, 6}, weights, {12, 12}, anywhere);
  EXPECT_TRUE(found.search(1000));
  EXPECT_TRUE(found.keeps_to_capacities());
  EXPECT_FALSE(one_gpu_step({1, 1, 1, 1, 1, 1}, weights, {12, 12}, anywhere).search(0));
  EXPECT_FALSE(one_gpu_step({1, 1, 1, 1, 1, 1}, weights, {11, 13}, anywhere).search(0));
}

TEST(SearchAllFillings, KnowsWhichSamplesAreShort)
{
  // The heaviest fits the small bag only, which the other two would fill.
  ballast_test::direct_problem const given({{1, 9, 9}, {1, 1, 1}, {2, 1}}, {5, 4, 4}, {8, 5});
  step small{given, {bag_b, bag_b, bag_b}};
  EXPECT_TRUE(small.search(1000));
  EXPECT_THAT(small.owner, ElementsAre(bag_b, bag_a, bag_a));
}

TEST(SearchAllFillings, DoesNotSearchBeyondItsRange)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_FALSE(
      one_gpu_step({1, 1}, {most / 2, most / 2}, {most, most}, {bag_a, bag_a}).search(1000));
}

}  // namespace
