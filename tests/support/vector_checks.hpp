// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_VECTOR_CHECKS_HPP
#define BALLAST_TESTS_SUPPORT_VECTOR_CHECKS_HPP

#include "trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/partition/partition.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ballast_test {

/// Samples with a cost in each of D dimensions, and how many bins they go to.
template <std::size_t D>
struct vector_instance {
  std::vector<ballast::cost_vector<D>> costs;
  std::size_t bins = 1;
};

/// Plans samples without lengths in equal bags.
template <class Samples, class Policy, class CostOf = std::identity>
auto plan_in_bins(Samples const& samples, std::size_t bins, Policy const& policy,
                  CostOf const& cost_of = {},
                  ballast::partition_constraints const& constraints = {})
{
  return ballast::partition(samples, ballast::one_gpu_bags(bins), policy, cost_of,
                            ballast::no_length{}, constraints);
}

/// A random step: ties, zeros, samples with no work in some dimension, and dimensions of which one
/// has hardly any work are frequent.
template <std::size_t D>
vector_instance<D> random_vectors(ballast::random_source& random, std::size_t most_samples,
                                  std::size_t most_bins)
{
  vector_instance<D> step;
  step.bins = 1 + random.below(most_bins);
  step.costs.resize(random.below(most_samples + 1));
  ballast::cost_vector<D> heaviest;
  for (auto& most : heaviest) { most = random.below(2) == 0 ? 5 : 1000; }
  for (auto& cost : step.costs) {
    for (std::size_t d = 0; d < D; ++d) {
      cost[d] = random.below(4) == 0 ? 0 : random.between(0, heaviest[d]);
    }
  }
  return step;
}

/// The loads that owners make, from bins that are empty.
template <std::size_t D>
std::vector<ballast::cost_vector<D>> loads_of(vector_instance<D> const& step,
                                              std::vector<ballast::bag_id> const& owner)
{
  std::vector<ballast::cost_vector<D>> loads(step.bins, ballast::cost_vector<D>{});
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    for (std::size_t d = 0; d < D; ++d) {
      loads.at(to_index(owner[sample]))[d] += step.costs[sample][d];
    }
  }
  return loads;
}

template <std::size_t D>
ballast::cost_units largest_load(std::vector<ballast::cost_vector<D>> const& loads)
{
  ballast::cost_units largest = 0;
  for (auto const& load : loads) { largest = std::max(largest, std::ranges::max(load)); }
  return largest;
}

/// What every policy promises, recomputed from the owners alone.
template <std::size_t D>
void expect_valid_vector_plan(vector_instance<D> const& step,
                              ballast::cost_vector_plan<D> const& plan)
{
  ASSERT_EQ(plan.owner.size(), step.costs.size());
  for (ballast::bag_id const bin : plan.owner) { ASSERT_LT(to_index(bin), step.bins); }
  EXPECT_EQ(plan.loads, loads_of(step, plan.owner));
  EXPECT_EQ(plan.makespan, ballast::ratio{largest_load(plan.loads)});
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

/// Runs a policy over random steps of one, two and three dimensions, among them no samples, fewer
/// samples than bins and a single bin.
template <class Policy>
void expect_valid_vector_plans(Policy const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  auto const try_dimensions = [&]<std::size_t D>(vector_instance<D> const& step) {
    auto const plan = plan_in_bins(step.costs, step.bins, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_vector_plan(step, *plan);
  };
  for (int trial = 0; trial < trials_of(1000) && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    try_dimensions(random_vectors<1>(random, 40, 9));
    try_dimensions(random_vectors<2>(random, 40, 9));
    try_dimensions(random_vectors<3>(random, 40, 9));
  }
}

/// Work that bins have before planning enters the loads and stays in them.
template <class Policy>
void expect_starting_vectors_counted(Policy const& policy)
{
  std::vector<ballast::cost_vector<2>> const costs{{5, 1}, {4, 4}, {1, 3}};
  std::vector<ballast::cost_vector<2>> loads{{100, 0}, {1, 90}};
  auto expected = loads;
  std::vector<ballast::bag_id> owner(3);
  ballast::workspace memory;
  policy(ballast::cost_vector_problem<2>{costs}, std::span(loads), std::span(owner), memory);
  for (std::size_t sample = 0; sample < 3; ++sample) {
    for (std::size_t d = 0; d < 2; ++d) {
      expected.at(to_index(owner[sample]))[d] += costs[sample][d];
    }
  }
  EXPECT_EQ(loads, expected);
}

/// The least makespan of all m^n assignments.
template <std::size_t D>
ballast::cost_units optimum(vector_instance<D> const& step,
                            std::vector<ballast::cost_vector<D>>& loads, ballast::cost_units best,
                            std::size_t sample = 0)
{
  ballast::cost_units const now = largest_load(loads);
  if (now >= best || sample == step.costs.size()) { return std::min(now, best); }
  for (auto& load : loads) {
    auto const before = load;
    for (std::size_t d = 0; d < D; ++d) { load[d] += step.costs[sample][d]; }
    best = optimum(step, loads, best, sample + 1);
    load = before;
  }
  return best;
}

template <std::size_t D>
ballast::cost_units optimum(vector_instance<D> const& step)
{
  std::vector<ballast::cost_vector<D>> loads(step.bins, ballast::cost_vector<D>{});
  return optimum(step, loads, ballast::no_cost);
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_VECTOR_CHECKS_HPP
