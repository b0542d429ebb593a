#include "../support/movement_lower_bound.hpp"
#include "../support/homed_steps.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

tokens movement_bound_of(homed_step const& homed, std::vector<cost_units> const& limits)
{
  workspace memory;
  return movement_lower_bound(homed.problem(), homed.starting_loads, limits, memory);
}

TEST(MovementLowerBound, IsNotAboveTheLeastMovement)  // Ensures (1)
{
  random_source random(8);
  int bounded = 0;
  int tight = 0;
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = random_homed_step(random, 6, 3, 4);
    std::vector<cost_units> limits = homed.starting_loads;
    for (cost_units& limit : limits) { limit += random.between(0, 1500); }
    auto const least = least_moved(homed, limits);
    if (!least) { continue; }
    tokens const bound = movement_bound_of(homed, limits);
    ASSERT_LE(bound, *least);
    bounded += bound > 0 ? 1 : 0;
    tight += bound > 0 && bound == *least ? 1 : 0;
  }
  EXPECT_GE(bounded, 40);
  EXPECT_GE(tight, bounded / 2);
}

TEST(MovementLowerBound, CutsTheSamplesWithMostWorkPerToken)
{
  // 70 of 100 may stay. The long sample brings 6 units per token, the others 2.
  homed_step const homed({{10, 10, 10}, {60, 20, 20}, {1, 1}}, {0, 0, 0});
  EXPECT_EQ(movement_bound_of(homed, {70, 100}), 5);
  EXPECT_EQ(movement_bound_of(homed, {69, 100}), 6);  // 31/60 of ten tokens, in whole ones
  EXPECT_EQ(movement_bound_of(homed, {30, 100}), 10 + 5);
  EXPECT_EQ(movement_bound_of(homed, {100, 0}), 0);
}

TEST(MovementLowerBound, CountsSamplesThatDoNotFitTheirHome)
{
  homed_step const homed({{3, 9}, {50, 60}, {4, 1}}, {0, 0});
  EXPECT_EQ(movement_bound_of(homed, {60, 100}), 3);
  EXPECT_EQ(movement_bound_of(homed, {0, 110}), 3 + 9);
}

TEST(MovementLowerBound, CountsWhatLiesElsewhereOfASampleJoinedFromSeveral)
{
  homed_step homed({{4, 6}, {40, 60}, {1, 1}}, {0, 0});
  homed.joint_lengths = {14, 16};
  homed.first_part = {0, 2, 4};
  homed.parts = {{bag_id{0}, 10}, {bag_id{1}, 4}, {bag_id{0}, 9}, {bag_id{1}, 7}};
  EXPECT_EQ(movement_bound_of(homed, {100, 100}), 4 + 7);
  EXPECT_EQ(movement_bound_of(homed, {40, 100}), 4 + 7 + 2);  // the second moves nine, not seven
  EXPECT_EQ(movement_bound_of(homed, {0, 100}), 4 + 7 + 2 + 6);
}

TEST(MovementLowerBound, MovesSamplesWithoutTokensForNothing)
{
  homed_step const homed({{0, 8}, {50, 60}, {1, 1}}, {0, 0}, {5, 0});
  EXPECT_EQ(movement_bound_of(homed, {65, 100}), 0);
  EXPECT_EQ(movement_bound_of(homed, {35, 100}), 4);
}

TEST(MovementLowerBound, IsZeroWithoutSamples)
{
  EXPECT_EQ(movement_bound_of(homed_step({{}, {}, {1, 2}}, {}), {0, 0}), 0);
}

}  // namespace
