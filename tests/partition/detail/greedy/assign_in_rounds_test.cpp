#include <ballast/partition/detail/greedy/assign_in_rounds.hpp>  // first: proves it is self-contained

#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::priced_sample;
using cost_list = std::vector<cost_units>;

struct assignment {
  std::vector<bag_id> owner;
  cost_list loads;

  friend bool operator==(assignment const&, assignment const&) = default;
};

std::vector<priced_sample> heaviest_first(cost_list const& of)
{
  ballast::workspace memory;
  std::vector<priced_sample> order(of.size());
  ballast::descending_order_into(order, of, memory);
  return order;
}

assignment in_rounds(cost_list const& of, cost_list loads)
{
  ballast::workspace memory;
  assignment result{std::vector<bag_id>(of.size()), std::move(loads)};
  EXPECT_TRUE(
      ballast::detail::assign_in_rounds(heaviest_first(of), result.loads, result.owner, memory));
  return result;
}

// Oracle: looks for the lightest bag for every sample.
assignment by_scan(cost_list const& of, cost_list loads)
{
  assignment result{std::vector<bag_id>(of.size()), std::move(loads)};
  for (auto const [cost, sample] : heaviest_first(of)) {
    auto const lightest = std::ranges::min_element(result.loads);  // of equal ones the first
    *lightest += cost;
    result.owner[to_index(sample)] =
        ballast::to_id<bag_id>(static_cast<std::size_t>(lightest - result.loads.begin()));
  }
  return result;
}

// Oracle for many bags: the queue that the rounds replace.
assignment by_queue(cost_list const& of, cost_list loads)
{
  assignment result{std::vector<bag_id>(of.size()), std::move(loads)};
  using bag = std::pair<cost_units, std::size_t>;
  std::priority_queue<bag, std::vector<bag>, std::greater<>> queue;
  for (std::size_t index = 0; index < result.loads.size(); ++index) {
    queue.emplace(result.loads[index], index);
  }
  for (auto const [cost, sample] : heaviest_first(of)) {
    auto const [load, index] = queue.top();
    queue.pop();
    queue.emplace(load + cost, index);
    result.loads[index] += cost;
    result.owner[to_index(sample)] = ballast::to_id<bag_id>(index);
  }
  return result;
}

TEST(AssignInRounds, AgreesWithAScanOfAllBags)  // Ensures (1)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    cost_list of(random.below(120));
    cost_list loads(1 + random.below(40));
    cost_units const heaviest = random.below(2) == 0 ? 4 : 10'000;
    cost_units const most_before = random.below(2) == 0 ? 0 : 2 * heaviest;
    for (cost_units& cost : of) { cost = random.between(0, heaviest); }
    for (cost_units& load : loads) { load = random.between(0, most_before); }
    ASSERT_EQ(in_rounds(of, loads), by_scan(of, loads));
  }
}

RC_GTEST_PROP(AssignInRounds, AgreesWithAScanOfAllBagsWhateverTheCosts, ())
{
  auto const scale = *rc::gen::inRange(0, 40);
  cost_list of = *rc::gen::container<cost_list>(rc::gen::inRange<cost_units>(0, 1000));
  cost_list loads =
      *rc::gen::nonEmpty(rc::gen::container<cost_list>(rc::gen::inRange<cost_units>(0, 3000)));
  for (cost_units& cost : of) { cost <<= scale; }
  for (cost_units& load : loads) { load <<= scale; }
  RC_ASSERT(in_rounds(of, loads) == by_scan(of, loads));
}

TEST(AssignInRounds, AgreesWithAPriorityQueueOverManyBags)  // Ensures (1)
{
  ballast::random_source random(5);
  for (std::size_t const bags : {64U, 1000U, 3000U}) {
    for (std::size_t const samples : {bags / 2, bags, 20 * bags + 7}) {
      for (cost_units const heaviest : {1, 50, 1 << 30}) {
        SCOPED_TRACE(testing::Message()
                     << samples << " samples up to " << heaviest << " in " << bags << " bags");
        cost_list of(samples);
        // Long-tailed: most costs are small and a few hold much of the work.
        for (cost_units& cost : of) { cost = random.between(0, random.between(1, heaviest)); }
        ASSERT_EQ(in_rounds(of, cost_list(bags, 0)), by_queue(of, cost_list(bags, 0)));
      }
    }
  }
}

// Rounds of one sample each: every one goes to the bag that starts far below the others.
TEST(AssignInRounds, AgreesWithAPriorityQueueWhereOneBagIsFarLighter)
{
  ballast::random_source random(6);
  for (cost_units const head_start : {500, 50'000}) {
    cost_list loads(800, head_start);
    loads[333] = 0;
    cost_list of(20'000);
    for (cost_units& cost : of) { cost = random.between(0, 3); }
    ASSERT_EQ(in_rounds(of, loads), by_queue(of, loads)) << "head start " << head_start;
  }
}

TEST(AssignInRounds, GivesTiesToTheLowestBag)
{
  EXPECT_EQ(in_rounds(cost_list(5, 7), cost_list(3, 0)).owner,
            (std::vector{bag_id{0}, bag_id{1}, bag_id{2}, bag_id{0}, bag_id{1}}));
  EXPECT_EQ(in_rounds(cost_list(3, 0), cost_list(3, 0)).owner,
            (std::vector{bag_id{0}, bag_id{0}, bag_id{0}}));
}

TEST(AssignInRounds, HasAnswersAtTheEdges)
{
  EXPECT_EQ(in_rounds({}, {3, 1}).loads, (cost_list{3, 1}));
  EXPECT_EQ(in_rounds({4, 5}, {7}).loads, (cost_list{16}));
  EXPECT_EQ(in_rounds({4}, {0, 0, 0}).loads, (cost_list{4, 0, 0}));
  cost_list const halves(2, ballast::no_cost / 2);  // as large as a total can get
  EXPECT_EQ(in_rounds(halves, {0}).loads, (cost_list{2 * (ballast::no_cost / 2)}));
}

TEST(AssignInRounds, DoesNothingWhereLoadsLeaveNoRoomForNumbers)  // Ensures (2)
{
  ballast::workspace memory;
  constexpr cost_units heavy = ballast::no_cost / 2;
  std::vector<priced_sample> const order{{heavy, ballast::sample_id{0}}};
  auto const assigned = [&](std::size_t bags, cost_units starting) {
    cost_list loads(bags, 0);
    loads[1] = starting;
    std::vector<bag_id> owner{ballast::to_id<bag_id>(bags)};
    bool const done = ballast::detail::assign_in_rounds(order, loads, owner, memory);
    EXPECT_EQ(loads[1], starting);
    EXPECT_EQ(loads[0], done ? heavy : 0);
    EXPECT_EQ(owner[0], done ? bag_id{0} : ballast::to_id<bag_id>(bags));
    return done;
  };
  EXPECT_TRUE(assigned(2, 0));  // 63 bits of load and one of number
  EXPECT_TRUE(assigned(2, heavy));
  EXPECT_FALSE(assigned(3, 0));
  EXPECT_FALSE(assigned(5, heavy));
}

TEST(AssignInRoundsDeathTest, RefusesToAssignToNoBag)
{
  ballast::workspace memory;
  cost_list loads;
  EXPECT_DEATH((void)ballast::detail::assign_in_rounds({}, loads, {}, memory), "!loads.empty");
}

}  // namespace
