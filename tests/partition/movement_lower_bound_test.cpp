// SPDX-License-Identifier: Apache-2.0
#include "../support/movement_lower_bound.hpp"

#include "../support/direct_problem.hpp"
#include "../support/test.hpp"

namespace movement_lower_bound_test {

using namespace ballast;
using namespace ballast_test;

/// A step whose samples lie in bags already, with everything that a policy is told about it.
struct homed_step : direct_problem {
  std::vector<bag_id> home;
  std::vector<tokens> joint_lengths = {};
  std::vector<std::uint32_t> first_part = {};
  std::vector<partition_problem::part> parts = {};

  homed_step(instance of, std::vector<std::uint32_t> const& homes) : direct_problem(std::move(of))
  {
    for (std::uint32_t const bag : homes) { home.push_back(bag_id{bag}); }
    step.before.resize(step.gpus.size());
  }

  [[nodiscard]] partition_problem problem() const
  {
    partition_problem seen = view();
    seen.home = home;
    seen.joint_lengths = joint_lengths;
    seen.first_part = first_part;
    seen.parts = parts;
    return seen;
  }
  /// Makes samples of several that stay together, each in a bag of its own below `bags`.
  void join_several(random_source& random, std::size_t bags)
  {
    first_part.push_back(0);
    for (std::size_t sample = 0; sample < home.size(); ++sample) {
      std::map<std::size_t, tokens> at;
      tokens const shortest = step.lengths[sample];
      at[random.below(bags)] = shortest;
      for (std::size_t more = random.below(4); more > 0; --more) {
        at[random.below(bags)] += random.between(shortest, shortest + shortest / 2);
      }
      joint_lengths.push_back(0);
      tokens most = -1;
      for (auto const& [bag, length] : at) {
        joint_lengths.back() += length;
        if (length > most) { home[sample] = to_id<bag_id>(bag); }
        most = std::max(most, length);
        if (length > 0) { parts.push_back({to_id<bag_id>(bag), length}); }
      }
      first_part.push_back(static_cast<std::uint32_t>(parts.size()));
    }
  }
  [[nodiscard]] tokens moved(std::span<bag_id const> owner) const
  {
    tokens all = 0;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      if (first_part.empty()) {
        all += owner[sample] == home[sample] ? 0 : step.lengths[sample];
        continue;
      }
      for (auto part = first_part[sample]; part < first_part[sample + 1]; ++part) {
        all += owner[sample] == parts[part].bag ? 0 : parts[part].length;
      }
    }
    return all;
  }
};

/// A random step, in every fourth one with work that bags have before, and in every third with
/// samples joined to one.
homed_step random_homed_step(random_source& random)
{
  instance step = random_instance(random, 6, 3, 4);
  std::vector<std::uint32_t> homes;
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    homes.push_back(static_cast<std::uint32_t>(random.below(step.gpus.size())));
  }
  if (random.below(4) == 0) {
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      step.before.push_back(random.between(0, 500));
    }
  }
  homed_step homed(std::move(step), homes);
  if (random.below(3) == 0) { homed.join_several(random, homed.step.gpus.size()); }
  return homed;
}

/// The fewest tokens that any plan within the limits moves, by trying all of them; nothing where
/// there is none.
std::optional<tokens> least_moved(homed_step const& homed, std::vector<cost_units> const& limits)
{
  return least_of_all(homed.step.costs.size(), limits.size(),
                      [&](assignment const& places) -> std::optional<tokens> {
                        std::vector<bag_id> owner;
                        for (std::size_t const bag : places) {
                          owner.push_back(to_id<bag_id>(bag));
                        }
                        auto const loads = homed.step.loads(places);
                        bool const within = std::equal(loads.begin(), loads.end(), limits.begin(),
                                                       std::less_equal<cost_units>{});
                        if (!within || !homed.step.all_fit(places)) { return std::nullopt; }
                        return homed.moved(owner);
                      });
}

tokens movement_bound_of(homed_step const& homed, std::vector<cost_units> const& limits)
{
  workspace memory;
  return movement_lower_bound(homed.problem(), homed.step.before, limits, memory);
}

TEST(MovementLowerBound, IsNotAboveTheLeastMovement)  // Ensures (1)
{
  random_source random(8);
  int bounded = 0;
  int tight = 0;
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const homed = random_homed_step(random);
    std::vector<cost_units> limits = homed.step.before;
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
  homed_step const homed({{0, 8}, {50, 60}, {1, 1}, {}, {5, 0}}, {0, 0});
  EXPECT_EQ(movement_bound_of(homed, {65, 100}), 0);
  EXPECT_EQ(movement_bound_of(homed, {35, 100}), 4);
}

TEST(MovementLowerBound, IsZeroWithoutSamples)
{
  EXPECT_EQ(movement_bound_of(homed_step({{}, {}, {1, 2}}, {}), {0, 0}), 0);
}

}  // namespace movement_lower_bound_test
