#include <ballast/partition/detail/movement/fill_from_home.hpp>  // first: proves it is self-contained

#include "../../../support/homed_steps.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::detail::limited_bags;

std::vector<bag_id> filled(ballast_test::homed_step const& homed,
                           std::vector<cost_units> const& limits)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const problem = homed.problem();
  limited_bags bags(problem, homed.starting_loads, limits, scratch);
  bags.place(homed.home);
  ballast::detail::fill_from_home(bags, memory);
  std::vector<bag_id> owner(homed.home.size());
  std::vector<cost_units> loads(limits.size());
  bags.store(owner, loads);
  EXPECT_EQ(loads, homed.loads(owner));
  return owner;
}

TEST(FillFromHome, PutsSamplesInBagsThatTheyFit)  // Ensures (1)
{
  ballast::random_source random(6);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = ballast_test::random_homed_step(random, 30, 5, 4);
    std::vector<cost_units> limits = homed.starting_loads;
    for (cost_units& limit : limits) { limit += random.between(0, 4000); }
    auto const owner = filled(homed, limits);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      ASSERT_TRUE(homed.fits(sample, to_index(owner[sample])));
    }
  }
}

TEST(FillFromHome, KeepsTheHeaviestAtHome)
{
  ballast_test::homed_step const homed({{50, 30, 20}, {50, 30, 20}, {1, 1}}, {0, 0, 0});
  EXPECT_EQ(filled(homed, {80, 60}), (std::vector{bag_id{0}, bag_id{0}, bag_id{1}}));
  EXPECT_EQ(filled(homed, {100, 60}), (std::vector{bag_id{0}, bag_id{0}, bag_id{0}}));
}

TEST(FillFromHome, DisplacesLightSamplesForHeavyOnes)
{
  // The second sample of 60 has room in bag 1 if the light ones there make way.
  ballast_test::homed_step const homed({{60, 60, 20, 20, 20}, {60, 60, 20, 20, 20}, {1, 1}},
                                       {0, 0, 1, 1, 1});
  EXPECT_EQ(filled(homed, {100, 80}),
            (std::vector{bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}, bag_id{0}}));
}

TEST(FillFromHome, PrefersABagThatHoldsTokensToTheOneWithMostRoom)
{
  ballast_test::homed_step homed({{60, 10}, {60, 30}, {1, 1, 1}}, {0, 0});
  homed.joint_lengths = {60, 25};
  homed.first_part = {0, 1, 3};
  homed.parts = {{bag_id{0}, 60}, {bag_id{0}, 15}, {bag_id{1}, 10}};
  EXPECT_EQ(filled(homed, {70, 30, 90}), (std::vector{bag_id{0}, bag_id{1}}));
}

TEST(FillFromHome, LeavesWhatFindsNoRoomWhereItIs)
{
  ballast_test::homed_step const homed({{60, 60}, {60, 60}, {1, 1}}, {0, 0});
  EXPECT_EQ(filled(homed, {70, 50}), (std::vector{bag_id{0}, bag_id{0}}));
}

}  // namespace
