#include <ballast/partition/detail/movement/return_home.hpp>  // first: proves it is self-contained

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

struct returned {
  bool within_limits;
  tokens moved;
  std::vector<bag_id> owner;
};

returned return_from(ballast_test::homed_step const& homed, std::vector<bag_id> const& owner,
                     std::vector<cost_units> const& limits, std::uint64_t steps = 1'000'000)
{
  ballast::detail::work_budget work(steps);
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const problem = homed.problem();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(owner);
  ballast::detail::return_home(bags, work);
  returned result{bags.within_limits(), bags.moved(), owner};
  std::vector<cost_units> loads(limits.size());
  bags.store(result.owner, loads);
  EXPECT_EQ(loads, homed.loads(result.owner));
  return result;
}

TEST(ReturnHome, StaysWithinLimitsAndMovesNothingAway)  // Ensures (1) (2)
{
  ballast::random_source random(19);
  tokens before = 0;
  tokens after = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = ballast_test::random_homed_step(random, 30, 5, 4);
    std::vector<bag_id> owner;
    for (std::size_t sample = 0; sample < homed.home.size(); ++sample) {
      std::size_t bag = random.below(homed.step.gpus.size());
      while (!homed.fits(sample, bag)) { bag = (bag + 1) % homed.step.gpus.size(); }
      owner.push_back(ballast::to_id<bag_id>(bag));
    }
    std::vector<cost_units> limits = homed.loads(owner);
    for (cost_units& limit : limits) { limit += random.between(0, 50); }
    auto const result = return_from(homed, owner, limits);
    ASSERT_TRUE(result.within_limits);
    ASSERT_LE(result.moved, homed.moved(owner));
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      ASSERT_TRUE(homed.fits(sample, to_index(result.owner[sample])));
    }
    tokens const always = homed.moved(homed.home);  // of samples joined to one, what lies elsewhere
    before += homed.moved(owner) - always;
    after += result.moved - always;
  }
  EXPECT_LE(after, before * 3 / 5);
}

TEST(ReturnHome, ExchangesSamplesThatAreAtEachOthersHome)
{
  ballast_test::homed_step const homed({{50, 49, 7}, {50, 49, 7}, {1, 1}}, {0, 1, 1});
  auto const result = return_from(homed, {bag_id{1}, bag_id{0}, bag_id{1}}, {50, 57});
  EXPECT_EQ(result.moved, 0);
}

TEST(ReturnHome, SendsAShorterSampleInstead)
{
  ballast_test::homed_step const homed({{50, 30, 9}, {50, 45, 9}, {1, 1}}, {0, 0, 1});
  auto const result = return_from(homed, {bag_id{1}, bag_id{0}, bag_id{1}}, {50, 59});
  EXPECT_EQ(result.owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{1}}));
  EXPECT_EQ(result.moved, 30);
}

TEST(ReturnHome, SendsASampleOnToAThirdBag)
{
  // The first cannot go home for the second's place in bag 1, which has become too small for it.
  ballast_test::homed_step const homed({{50, 60, 1}, {50, 55, 1}, {1, 1, 1}}, {0, 2, 1});
  auto const result = return_from(homed, {bag_id{1}, bag_id{0}, bag_id{1}}, {55, 51, 55});
  EXPECT_EQ(result.owner, homed.home);
}

TEST(ReturnHome, TakesAnyBagThatHoldsMoreOfASampleJoinedFromSeveral)
{
  // Eleven tokens of the first in bag 0, which has no room, five in bag 1, which has, and four here.
  ballast_test::homed_step homed({{4, 30}, {20, 30}, {1, 1, 1}}, {0, 0});
  homed.joint_lengths = {20, 30};
  homed.first_part = {0, 3, 4};
  homed.parts = {{bag_id{0}, 11}, {bag_id{1}, 5}, {bag_id{2}, 4}, {bag_id{0}, 30}};
  auto const result = return_from(homed, {bag_id{2}, bag_id{0}}, {30, 20, 20});
  EXPECT_EQ(result.owner, (std::vector{bag_id{1}, bag_id{0}}));
  EXPECT_EQ(result.moved, 15);
  EXPECT_EQ(return_from(homed, {bag_id{2}, bag_id{0}}, {50, 20, 20}).moved, 9);
}

TEST(ReturnHome, LooksAtNoMoreThanItsWork)
{
  ballast_test::homed_step const homed({{50, 49}, {50, 49}, {1, 1}}, {0, 1});
  auto const result = return_from(homed, {bag_id{1}, bag_id{0}}, {50, 50}, 0);
  EXPECT_EQ(result.moved, 99);
}

}  // namespace
