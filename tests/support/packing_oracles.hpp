// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"
#include "steady_state.hpp"
#include "test.hpp"

#include <ballast/partition/packing/pack.hpp>

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

/// What every packing by one cap promises, recomputed from the owners alone.
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

inline ballast::result<ballast::packing_plan> pack(packing_instance const& step,
                                                   ballast::bins const& wanted = {})
{
  return ballast::pack(step.weights, {.most_per_gpu = step.capacity}, wanted);
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

}  // namespace ballast_test
