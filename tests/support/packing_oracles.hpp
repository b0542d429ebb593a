// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_PACKING_ORACLES_HPP
#define BALLAST_TESTS_SUPPORT_PACKING_ORACLES_HPP

#include "trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

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

/// Heaviest first, equal weights in sample order: what fit-decreasing rules go through.
inline std::vector<std::size_t> heaviest_first(std::vector<std::int64_t> const& weights)
{
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return weights[a] > weights[b] || (weights[a] == weights[b] && a < b);
  });
  return order;
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

/// Runs a policy over random instances, no samples and only samples of no weight among them.
template <class Policy>
void expect_valid_packings(Policy const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_packing(random, 60);
    auto const plan = ballast::pack_to_capacity(step.weights, step.capacity, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_packing(step, *plan);
    if (testing::Test::HasFailure()) { return; }
  }
}

/// The fewest bins by trying, for each sample in turn, every open bin and a new one.
inline std::size_t fewest_bins(packing_instance const& step, std::vector<std::int64_t>& loads,
                               std::size_t best, std::size_t sample = 0)
{
  if (loads.size() >= best) { return best; }
  if (sample == step.weights.size()) { return loads.size(); }
  std::int64_t const weight = step.weights[sample];
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    if (loads[bin] + weight > step.capacity) { continue; }
    loads[bin] += weight;
    best = fewest_bins(step, loads, best, sample + 1);
    loads[bin] -= weight;
  }
  loads.push_back(weight);
  best = fewest_bins(step, loads, best, sample + 1);
  loads.pop_back();
  return best;
}

inline std::size_t fewest_bins(packing_instance const& step)
{
  std::vector<std::int64_t> loads;
  return fewest_bins(step, loads, step.weights.size() + 1);
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_PACKING_ORACLES_HPP
