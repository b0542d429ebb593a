#include <ballast/partition/detail/movement/limited_bags.hpp>  // first: proves it is self-contained

#include "../../../support/homed_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::detail::bag_room;
using ballast::detail::limited_bags;

// Everything that the class says, from the bag of each sample alone.
void expect_consistent(ballast_test::homed_step const& homed, limited_bags const& bags,
                       std::vector<cost_units> const& limits)
{
  std::vector<bag_id> owner(homed.home.size());
  std::vector<cost_units> loads(limits.size());
  bags.store(owner, loads);
  EXPECT_EQ(loads, homed.loads(owner));
  EXPECT_EQ(bags.moved(), homed.moved(owner));

  std::size_t counted = 0;
  std::vector<bag_room> rooms;
  for (std::uint32_t bag = 0; bag < limits.size(); ++bag) {
    EXPECT_EQ(bags.room(bag), limits[bag] - loads[bag]);
    rooms.push_back({limits[bag] - loads[bag], bag});
    std::uint32_t before = limited_bags::none;
    for (auto sample = bags.first_of(bag); sample != limited_bags::none;
         sample = bags[sample].next) {
      EXPECT_EQ(bags[sample].bag, bag);
      EXPECT_EQ(bags[sample].previous, before);
      if (before != limited_bags::none) { EXPECT_LT(before, sample); }
      before = sample;
      ++counted;
    }
  }
  EXPECT_EQ(counted, owner.size());
  std::ranges::sort(rooms, std::less{});
  for (std::size_t place = 0; place < rooms.size(); ++place) {
    EXPECT_EQ(bags.by_room()[place].bag, rooms[place].bag);
    EXPECT_EQ(bags.by_room()[place].room, rooms[place].room);
  }
  EXPECT_EQ(bags.within_limits(), rooms.front().room >= 0);
}

TEST(LimitedBags, KeepsListsRoomsAndMovementThroughAnyMoves)  // Ensures (1) (2) (3)
{
  ballast::random_source random(41);
  ballast::workspace memory;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = ballast_test::random_homed_step(random, 30, 6, 3);
    std::vector<cost_units> limits;
    for (cost_units const load : homed.starting_loads) {
      limits.push_back(load + random.between(0, 2000));
    }
    auto const problem = homed.problem();
    auto scratch = memory.open();
    limited_bags bags(problem, homed.starting_loads, limits, scratch);
    bags.place(homed.home);
    for (auto const& each : bags.samples()) {
      EXPECT_TRUE(homed.fits(to_index(each.id), each.bag));
      if (homed.fits(to_index(each.id), each.home)) { EXPECT_FALSE(each.away()); }
    }
    expect_consistent(homed, bags, limits);
    for (int move = 0; move < 40 && !homed.home.empty(); ++move) {
      auto const sample = static_cast<std::uint32_t>(random.below(homed.home.size()));
      auto const bag = static_cast<std::uint32_t>(random.below(limits.size()));
      ballast::tokens const expected = bags.moved() + bags.newly_moved(sample, bag);
      bags.move(sample, bag);
      EXPECT_EQ(bags.moved(), expected);
    }
    expect_consistent(homed, bags, limits);
    if (HasFailure()) { return; }
  }
}

TEST(LimitedBags, FindsTheFirstBagWithRoom)
{
  ballast_test::homed_step const homed({{}, {}, {1, 1, 1}}, {});
  std::vector<cost_units> const limits{30, 10, 20};
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const problem = homed.problem();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place({});
  EXPECT_EQ(bags.first_with_room(0), 0U);
  EXPECT_EQ(bags.first_with_room(10), 0U);
  EXPECT_EQ(bags.first_with_room(11), 1U);
  EXPECT_EQ(bags.first_with_room(30), 2U);
  EXPECT_EQ(bags.first_with_room(31), 3U);
}

TEST(LimitedBags, PutsASampleWithoutABagWhereItFitsAndMostRoomIs)
{
  // A bag of four GPUs cannot take the samples of two tokens, and the second has no bag.
  ballast_test::homed_step const homed({{2, 2, 9}, {5, 5, 5}, {4, 1, 1}}, {0, 0, 0});
  std::vector<cost_units> const limits{100, 10, 20};
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const problem = homed.problem();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(std::vector{bag_id{0}, bag_id{3}, bag_id{0}});
  EXPECT_EQ(bags[0].bag, 2U);
  EXPECT_EQ(bags[1].bag, 2U);
  EXPECT_EQ(bags[2].bag, 0U);
  EXPECT_EQ(bags.moved(), 4);
  EXPECT_FALSE(bags.may_enter(0, 0));
  EXPECT_TRUE(bags.may_enter(2, 0));
}

TEST(LimitedBags, PutsASampleThatNoCapacityHasRoomForWhereItFits)
{
  // The large bag has least room in work, so it comes first where no bag has room in weight.
  ballast_test::homed_step const homed({{2}, {5}, {4, 1, 1}}, {0});
  std::vector<std::int64_t> const weights{9};
  std::vector<std::int64_t> const capacities{4, 1, 1};
  auto problem = homed.problem();
  problem.weights = weights;
  problem.capacities = capacities;
  std::vector<cost_units> const limits{10, 30, 20};
  ballast::workspace memory;
  auto scratch = memory.open();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(homed.home);
  EXPECT_EQ(bags[0].bag, 2U);
  EXPECT_FALSE(bags.within_limits());
}

TEST(LimitedBags, FitsSamplesJoinedToOneByTheShortestAndMovesThemAll)
{
  // Three samples of two tokens are joined to one: a bag of four GPUs cannot split them.
  ballast_test::homed_step const homed({{2}, {5}, {4, 1}}, {0});
  std::vector<ballast::tokens> const joint_lengths{6};
  auto problem = homed.problem();
  problem.joint_lengths = joint_lengths;
  std::vector<cost_units> const limits{100, 100};
  ballast::workspace memory;
  auto scratch = memory.open();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(homed.home);
  EXPECT_EQ(bags[0].bag, 1U);
  EXPECT_FALSE(bags.may_enter(0, 0));
  EXPECT_EQ(bags.moved(), 6);
}

TEST(LimitedBags, CountsWhatEachBagHoldsOfSamplesJoinedToOne)
{
  ballast_test::homed_step homed({{2}, {5}, {1, 1, 1, 4}}, {2});
  homed.joint_lengths = {18};
  homed.first_part = {0, 4};
  homed.parts = {{bag_id{0}, 3}, {bag_id{1}, 4}, {bag_id{2}, 6}, {bag_id{3}, 5}};
  std::vector<cost_units> limits{5, 4, 5, 9};
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const problem = homed.problem();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(homed.home);
  EXPECT_EQ(bags.moved(), 12);
  EXPECT_EQ(bags.newly_moved(0, 1), 2);
  EXPECT_EQ(bags.home_with_room(0),
            0U);  // bag 1 has no room, and the bag of four GPUs is too large
  bags.move(0, 1);
  EXPECT_EQ(bags.moved(), 14);
  EXPECT_EQ(bags.home_with_room(0), 2U);
  bags.place(std::vector{bag_id{3}});  // does not fit: goes where most of it has room
  EXPECT_EQ(bags[0].bag, 2U);
}

TEST(LimitedBags, CountsWeightsAgainstCapacities)
{
  ballast_test::homed_step const homed({{9, 9, 9}, {5, 4, 3}, {1, 1}}, {0, 0, 1});
  std::vector<std::int64_t> const weights{6, 4, 5};
  std::vector<std::int64_t> const capacities{10, 9};
  auto problem = homed.problem();
  problem.weights = weights;
  problem.capacities = capacities;
  std::vector<cost_units> const limits{100, 100};
  ballast::workspace memory;
  auto scratch = memory.open();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(homed.home);
  EXPECT_TRUE(bags.within_limits());
  EXPECT_FALSE(bags.may_enter(0, 1));
  EXPECT_TRUE(bags.may_enter(0, 1, 2));
  EXPECT_TRUE(bags.may_enter(1, 1));
  bags.move(0, 1);
  EXPECT_FALSE(bags.within_limits());
  bags.move(0, 0);
  EXPECT_TRUE(bags.within_limits());
}

TEST(LimitedBagsDeathTest, NeedAHomeForEverySample)
{
  ballast_test::homed_step const homed({{3}, {3}, {1}}, {});
  std::vector<cost_units> const limits(1, 3);
  ballast::workspace memory;
  auto scratch = memory.open();
  EXPECT_DEATH(limited_bags(homed.problem(), homed.starting_loads, limits, scratch),
               "homes of 0 samples for a problem of 1");
}

}  // namespace
