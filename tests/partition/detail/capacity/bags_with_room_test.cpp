#include <ballast/partition/detail/capacity/bags_with_room.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::detail::bags_with_room;
using ballast::detail::room_choice;
using testing::ElementsAre;

constexpr bag_id no_bag{3};

struct filled_bags {
  ballast_test::direct_problem given;
  std::vector<cost_units> loads;
  std::vector<bag_id> owner;
  ballast::workspace memory = {};
  ballast::workspace::frame frame = memory.open();
  bags_with_room bags{given.view(), loads, owner, frame};
};

// Three bags that hold 10, 20 and 10; the third has two GPUs.
filled_bags three_bags(std::vector<bag_id> owner, std::vector<cost_units> loads)
{
  return {ballast_test::direct_problem({{9, 9, 9, 1}, {40, 30, 20, 10}, {1, 1, 2}}, {8, 6, 4, 2},
                                       {10, 20, 10}),
          std::move(loads), std::move(owner)};
}

TEST(BagsWithRoom, KnowWhatBagsHoldAndWhichAreOverrun)  // Ensures (1)
{
  auto const full = three_bags({bag_id{0}, bag_id{0}, bag_id{2}, no_bag}, {70, 0, 20});
  EXPECT_THAT(full.bags.held(), ElementsAre(14, 0, 4));
  EXPECT_TRUE(full.bags.is_overrun(0));
  EXPECT_FALSE(full.bags.is_overrun(2));
  EXPECT_TRUE(full.bags.any_overrun());
  full.bags.remove(1);
  EXPECT_FALSE(full.bags.any_overrun());
  EXPECT_EQ(full.owner[1], no_bag);
  full.bags.put(1, 1);
  EXPECT_THAT(full.bags.held(), ElementsAre(8, 6, 4));
  EXPECT_THAT(full.loads, ElementsAre(40, 30, 20));
}

TEST(BagsWithRoom, PlaceWhereASampleFinishesEarliest)
{
  auto const empty = three_bags({no_bag, no_bag, no_bag, no_bag}, {0, 0, 0});
  EXPECT_TRUE(empty.bags.place(0, room_choice::earliest));
  EXPECT_EQ(empty.owner[0], bag_id{2});  // twice as fast
  EXPECT_TRUE(empty.bags.place(1, room_choice::earliest));
  EXPECT_EQ(empty.owner[1], bag_id{0});  // the first of two as early; the third has no room
  EXPECT_TRUE(empty.bags.place(3, room_choice::earliest));
  EXPECT_EQ(empty.owner[3], bag_id{1});
}

TEST(BagsWithRoom, PlaceWhereLeastRoomIsLeft)
{
  auto const empty = three_bags({no_bag, no_bag, no_bag, no_bag}, {0, 0, 0});
  EXPECT_TRUE(empty.bags.fill(empty.given.heaviest_first, room_choice::tightest));
  // 8 in the first, 6 in the third, 4 there too, and 2 into what the first has left
  EXPECT_THAT(empty.owner, ElementsAre(bag_id{0}, bag_id{2}, bag_id{2}, bag_id{0}));
}

TEST(BagsWithRoom, HaveNoRoomAfterSoManyLooks)
{
  auto const empty = three_bags({no_bag, no_bag, no_bag, no_bag}, {0, 0, 0});
  EXPECT_TRUE(empty.bags.look_at(empty.bags.most_looks - 12));  // as many as one place takes
  EXPECT_TRUE(empty.bags.place(0, room_choice::earliest));
  EXPECT_FALSE(empty.bags.place(1, room_choice::earliest));
  EXPECT_EQ(empty.owner[1], no_bag);
}

TEST(BagsWithRoom, LeaveASampleWithoutRoomOut)
{
  filled_bags tight{ballast_test::direct_problem({{1, 1}, {5, 5}, {1, 2}}, {3, 3}, {4, 9}),
                    {7, 0},
                    {bag_id{2}, bag_id{2}}};
  EXPECT_FALSE(tight.bags.fill(tight.given.heaviest_first, room_choice::earliest));
  EXPECT_THAT(tight.owner, ElementsAre(bag_id{0}, bag_id{2}));  // too short for the larger bag
  EXPECT_THAT(tight.loads, ElementsAre(12, 0));
  tight.bags.clear(std::vector<cost_units>{7, 0});
  EXPECT_THAT(tight.owner, ElementsAre(bag_id{2}, bag_id{2}));
  EXPECT_THAT(tight.loads, ElementsAre(7, 0));
  EXPECT_THAT(tight.bags.held(), ElementsAre(0, 0));
}

TEST(BagsWithRoom, TakeAnotherPlan)
{
  auto const full = three_bags({bag_id{0}, bag_id{0}, bag_id{2}, no_bag}, {70, 0, 20});
  full.bags.replace(std::vector<cost_units>{10, 90, 0},
                    std::vector<bag_id>{bag_id{1}, bag_id{1}, bag_id{1}, bag_id{0}});
  EXPECT_THAT(full.bags.held(), ElementsAre(2, 18, 0));
  EXPECT_THAT(full.loads, ElementsAre(10, 90, 0));
  EXPECT_EQ(full.owner[3], bag_id{0});
}

TEST(BagsWithRoomDeathTest, NeedWeightsAndCapacities)
{
  auto const made = [](std::vector<std::int64_t> weights, std::vector<std::int64_t> capacities) {
    (void)filled_bags{
        ballast_test::direct_problem({{9}, {9}, {1, 1}}, weights, capacities), {0, 0}, {no_bag}};
  };
  EXPECT_DEATH(made({1}, {}), "capacities of 0 bags for a problem of 2");
  EXPECT_DEATH(made({}, {5, 5}), "weights of 0 samples for a problem of 1");
}

}  // namespace
