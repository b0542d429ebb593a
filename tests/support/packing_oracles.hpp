// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"
#include "steady_state.hpp"
#include "test.hpp"

#include <ballast/partition/packing/pack_to_capacity.hpp>
#include <ballast/partition/packing/packing_plan.hpp>

namespace ballast_test {

/// Samples and what a bin of them holds.
struct packing_instance {
  std::vector<std::int64_t> weights;
  std::int64_t capacity = 0;
};

/// Weights a little below and above a half, a third, a quarter or a fifth of the capacity.
inline packing_instance near_parts_of_capacity(ballast::random_source& random,
                                               std::size_t most_samples)
{
  std::int64_t const capacities[] = {60, 1000, 10'000, std::int64_t{1} << 40};
  packing_instance step{{}, capacities[random.below(4)]};
  std::int64_t const part = random.between(2, 5);
  std::int64_t const beyond = step.capacity / random.between(20, 60);
  step.weights.resize(random.below(most_samples + 1));
  for (auto& weight : step.weights) {
    weight = step.capacity / part + random.between(-beyond, beyond);
  }
  return step;
}

/// A random instance whose samples all fit a bin: ties, zeros, full bins, and weights near parts of
/// the capacity are frequent.
inline packing_instance random_packing(ballast::random_source& random, std::size_t most_samples)
{
  if (random.below(4) == 0) { return near_parts_of_capacity(random, most_samples); }
  std::int64_t const capacities[] = {0, 1, 10, 100, 5000, std::int64_t{1} << 40};
  packing_instance step{{}, capacities[random.below(6)]};
  std::int64_t const heaviest = random.below(2) == 0 ? step.capacity : (step.capacity + 1) / 2;
  step.weights.resize(random.below(most_samples + 1));
  for (auto& weight : step.weights) { weight = random.between(0, heaviest); }
  return step;
}

/// What every packing policy promises, recomputed from the owners alone.
inline void expect_valid_packing(packing_instance const& step, ballast::packing_plan const& plan)
{
  ASSERT_EQ(plan.owner.size(), step.weights.size());
  std::vector<std::int64_t> loads(plan.bins(), 0);
  std::vector<int> held(plan.bins(), 0);
  for (std::size_t sample = 0; sample < step.weights.size(); ++sample) {
    ASSERT_LT(to_index(plan.owner[sample]), plan.bins());
    loads[to_index(plan.owner[sample])] += step.weights[sample];
    ++held[to_index(plan.owner[sample])];
  }
  EXPECT_EQ(plan.loads, loads);
  for (std::size_t bin = 0; bin < plan.bins(); ++bin) {
    EXPECT_LE(loads[bin], step.capacity) << "bin " << bin;
    EXPECT_GT(held[bin], 0) << "bin " << bin;
  }
  EXPECT_LE(plan.lower_bound, plan.bins());
}

/// Any packing policy by reference, so that the front door is compiled once for all of them.
struct packing_ref {
  template <ballast::packing_policy Policy>
    requires(!std::same_as<Policy, packing_ref>)
  packing_ref(Policy const& policy)  // NOLINT(google-explicit-constructor): a reference
      : held(&policy),
        run([](void const* of, ballast::packing_problem const& problem,
               std::span<ballast::bag_id> owner, ballast::workspace& memory) {
          return ballast::run_policy(*static_cast<Policy const*>(of), problem, owner, memory);
        })
  {}

  ballast::packed_bins operator()(ballast::packing_problem const& problem,
                                  std::span<ballast::bag_id> owner,
                                  ballast::workspace& memory) const
  {
    return run(held, problem, owner, memory);
  }

  void const* held;
  ballast::packed_bins (*run)(void const*, ballast::packing_problem const&,
                              std::span<ballast::bag_id>, ballast::workspace&);
};

inline ballast::result<ballast::packing_plan> pack(packing_instance const& step,
                                                   packing_ref const& policy)
{
  return ballast::pack_to_capacity(step.weights, step.capacity, policy);
}

/// Runs a policy over random instances, no samples and only samples of no weight among them. Some
/// are packed again, in memory that has seen others, to the same plan.
inline void expect_valid_packings(packing_ref const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  ballast::packing_plan again;
  ballast::workspace memory;
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_packing(random, trial % 20 == 0 ? 400 : 60);
    auto const plan = pack(step, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_packing(step, *plan);
    if (trial % 20 == 0) {
      ASSERT_TRUE(
          ballast::pack_to_capacity_into(again, memory, step.weights, step.capacity, policy));
      EXPECT_EQ(plan->digest(), again.digest());
      EXPECT_EQ(plan->lower_bound, again.lower_bound);
    }
    if (testing::Test::HasFailure()) { return; }
  }
}

/// What policies of the library promise too: the largest total, and no owners of other samples.
inline void expect_packing_edges(packing_ref const& policy)
{
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_EQ(pack({{most / 2, most / 2}, most}, policy)->bins(), 1U);
  std::vector<std::int64_t> const weights{1};
  std::vector<ballast::priced_sample> const order{{1, ballast::sample_id{0}}};
  ballast::workspace memory;
  EXPECT_DEATH((void)policy({weights, order, 1}, {}, memory),
               "`owner` of 0 samples for a problem of 1");
}

/// In memory that has seen a step, none that is no larger allocates.
inline void expect_no_packing_allocation(packing_ref const& policy, std::int64_t capacity)
{
  ballast::random_source random(3);
  std::int64_t const heaviest = std::min<std::int64_t>(capacity, 9000);
  std::vector<std::int64_t> weights(1000, heaviest);  // often one to a bin: the most bins
  ballast::packing_plan plan;
  ballast::workspace memory;
  auto const step = [&] {
    auto const done = ballast::pack_to_capacity_into(plan, memory, weights, capacity, policy);
    weights.pop_back();
    for (auto& weight : weights) { weight = random.between(0, heaviest); }
    return done.has_value();
  };
  expect_steady_state(step, 2);
}

/// The fewest bins by trying, for each sample in turn, every open bin and a new one.
inline std::size_t fewest_bins(packing_instance const& step)
{
  return least_of_all_packings(
             step.weights.size(), step.weights.size(),
             [&](assignment const& owner, std::size_t bins) -> std::optional<std::size_t> {
               auto const held = sums_of(owner, step.weights, std::vector<std::int64_t>(bins, 0));
               bool const fit =
                   std::ranges::all_of(held, [&](auto sum) { return sum <= step.capacity; });
               return fit ? std::optional(bins) : std::nullopt;
             })
      .value();
}

/// Of some small steps, how many were packed into the fewest bins, and how many of these proven.
struct small_packings {
  int optimal = 0;
  int proven = 0;
};

/// Packs small steps; `check(bins, fewest)` is called for each.
template <class Check>
small_packings expect_small_packings(packing_ref const& policy, std::uint64_t seed, int steps,
                                     Check const& check)
{
  ballast::random_source random(seed);
  small_packings found;
  for (int trial = 0; trial < steps; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_packing(random, 9);
    auto const plan = pack(step, policy);
    EXPECT_TRUE(plan);
    if (!plan) { break; }
    std::size_t const fewest = fewest_bins(step);
    EXPECT_LE(plan->lower_bound, fewest);
    EXPECT_GE(plan->bins(), fewest);
    check(plan->bins(), fewest);
    found.optimal += plan->bins() == fewest ? 1 : 0;
    found.proven += plan->proven_optimal() ? 1 : 0;
  }
  return found;
}

}  // namespace ballast_test
