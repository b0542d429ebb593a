#include <ballast/partition/detail/movement/shed_excess.hpp>  // first: proves it is self-contained

#include "../../../support/homed_steps.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::tokens;
using ballast::detail::limited_bags;

struct shed {
  bool within_limits;
  tokens moved;
  std::vector<bag_id> owner;
  std::vector<cost_units> loads;
  std::uint64_t work_left;
};

shed shed_from_home(ballast_test::homed_step const& homed, std::vector<cost_units> const& limits,
                    std::uint64_t steps = 1'000'000)
{
  ballast::detail::work_budget work(steps);
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const problem = homed.problem();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(homed.home);
  bool const done = ballast::detail::shed_excess(bags, work, memory);
  shed result{done, bags.moved(), homed.home, limits, work.left()};
  bags.store(result.owner, result.loads);
  return result;
}

cost_units above(std::vector<cost_units> const& loads, std::vector<cost_units> const& limits)
{
  cost_units sum = 0;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    sum += std::max<cost_units>(loads[bag] - limits[bag], 0);
  }
  return sum;
}

TEST(ShedExcess, NeverAddsToTheWorkAboveLimits)  // Ensures (1) (2)
{
  ballast::random_source random(77);
  int solved = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = ballast_test::random_homed_step(random, 40, 6, 4);
    std::vector<cost_units> limits = homed.starting_loads;
    for (cost_units& limit : limits) { limit += random.between(0, 4000); }
    // Samples that do not fit at home are away before anything is shed.
    std::vector<bag_id> home = homed.home;
    bool const all_fit = [&] {
      for (std::size_t sample = 0; sample < home.size(); ++sample) {
        if (!homed.fits(sample, to_index(home[sample]))) { return false; }
      }
      return true;
    }();
    auto const result = shed_from_home(homed, limits);
    ASSERT_EQ(result.loads, homed.loads(result.owner));
    for (std::size_t sample = 0; sample < home.size(); ++sample) {
      ASSERT_TRUE(homed.fits(sample, to_index(result.owner[sample])));
    }
    cost_units const left = above(result.loads, limits);
    ASSERT_EQ(result.within_limits, left == 0);
    if (all_fit) { ASSERT_LE(left, above(homed.loads(home), limits)); }
    solved += result.within_limits ? 1 : 0;
  }
  EXPECT_GE(solved, 1000);
}

TEST(ShedExcess, MovesTheShortestSampleThatIsEnough)
{
  // 12 too much in bag 0: one sample of 13 tokens does it, two of 8 would move more.
  ballast_test::homed_step const homed({{30, 13, 8, 8}, {30, 13, 8, 8}, {1, 1}}, {0, 0, 0, 0});
  auto const result = shed_from_home(homed, {47, 20});
  EXPECT_TRUE(result.within_limits);
  EXPECT_EQ(result.moved, 13);
  EXPECT_EQ(result.owner[1], bag_id{1});
}

TEST(ShedExcess, SwapsWhereNoSampleFindsRoom)
{
  // Bag 1 has room for 3 only: 20 goes there and 18 comes back.
  ballast_test::homed_step const homed({{20, 20, 18, 19}, {20, 20, 18, 19}, {1, 1}}, {0, 0, 1, 1});
  auto const result = shed_from_home(homed, {38, 40});
  EXPECT_TRUE(result.within_limits);
  EXPECT_EQ(result.moved, 38);
  EXPECT_EQ(result.owner[2], bag_id{0});
}

TEST(ShedExcess, PassesExcessOnWhereThatMakesItLess)
{
  // No bag has room for the 6 that bag 0 has too much. Bag 2 is 1 short, which it gets by a swap of
  // 10 for 9 with bag 1.
  std::vector<tokens> const sizes{300, 6, 9, 87, 10, 85};
  ballast_test::homed_step const homed({sizes, sizes, {1, 1, 1}}, {0, 0, 1, 1, 2, 2});
  auto const result = shed_from_home(homed, {300, 98, 100});
  EXPECT_TRUE(result.within_limits);
  EXPECT_EQ(result.moved, 6 + 10 + 9);
}

TEST(ShedExcess, PrefersWorkThatTakesFewTokens)
{
  // Costs are not proportional to lengths: the short sample brings as much.
  ballast_test::homed_step const homed({{1000, 10, 50}, {40, 40, 40}, {1, 1}}, {0, 0, 0});
  auto const result = shed_from_home(homed, {80, 80});
  EXPECT_TRUE(result.within_limits);
  EXPECT_EQ(result.moved, 10);
}

TEST(ShedExcess, EndsWhenItsWorkIsUsedUp)
{
  ballast::random_source random(3);
  std::vector<tokens> lengths;
  std::vector<std::uint32_t> homes;
  for (int sample = 0; sample < 2000; ++sample) {
    lengths.push_back(random.between(1, 1000));
    homes.push_back(static_cast<std::uint32_t>(random.below(10)));
  }
  ballast_test::homed_step const homed({lengths, lengths, std::vector<std::uint32_t>(20, 1)},
                                       homes);
  std::vector<cost_units> const limits(20, 50'100);
  EXPECT_EQ(shed_from_home(homed, limits, 100).work_left, 0U);
  EXPECT_FALSE(shed_from_home(homed, limits, 0).within_limits);
}

}  // namespace
