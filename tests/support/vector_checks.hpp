// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"
#include "instances.hpp"  // defines: ballast_test::consecutive_bags
#include "test.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace ballast_test {

/// The loads that owners make of what bags have at first.
template <std::size_t D>
std::vector<ballast::cost_vector<D>> loads_of(std::vector<ballast::cost_vector<D>> const& costs,
                                              assignment const& owner,
                                              std::vector<ballast::cost_vector<D>> loads)
{
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    for (std::size_t d = 0; d < D; ++d) { loads.at(owner[sample])[d] += costs[sample][d]; }
  }
  return loads;
}
template <std::size_t D>
std::vector<ballast::cost_vector<D>> idle(std::size_t bags)
{
  return std::vector(bags, ballast::cost_vector<D>{});
}

/// Samples with D costs, a length and a weight each, and bags of GPUs of several speeds that hold
/// some weight per GPU. Samples with one key stay together; without keys they do not. Without
/// lengths, samples fit every bag; without speeds, GPUs are alike.
template <std::size_t D>
struct vector_step {
  std::vector<ballast::cost_vector<D>> costs;
  std::vector<ballast::tokens> lengths = {};
  std::vector<std::int64_t> weights = {};
  std::vector<std::uint32_t> gpus{1};
  std::vector<std::uint32_t> gpu_speeds = {};  // of each bag's GPUs
  std::int64_t most_per_gpu = ballast::no_limit;
  std::vector<std::int64_t> together = {};

  [[nodiscard]] bool is_limited() const { return most_per_gpu != ballast::no_limit; }
  /// Whether these owners of the first samples keep to everything asked for.
  [[nodiscard]] bool keeps(assignment const& owner) const
  {
    std::vector<std::int64_t> held(gpus.size(), 0);
    bool kept = true;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      std::int64_t const own_gpus = gpus[owner[sample]];
      kept = kept && (lengths.empty() || lengths[sample] == 0 || lengths[sample] >= own_gpus);
      for (std::size_t other = 0; !together.empty() && other < sample; ++other) {
        kept = kept && (together[other] != together[sample] || owner[other] == owner[sample]);
      }
      if (!is_limited()) { continue; }
      held[owner[sample]] += weights[sample];
      kept = kept && held[owner[sample]] <= own_gpus * most_per_gpu;
    }
    return kept;
  }
  [[nodiscard]] ballast::ratio makespan(assignment const& owner) const
  {
    auto const loads = loads_of(costs, owner, idle<D>(gpus.size()));
    ballast::ratio latest;
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      std::uint32_t const speed = gpus[bag] * (gpu_speeds.empty() ? 1 : gpu_speeds[bag]);
      latest = std::max(latest, ballast::ratio{std::ranges::max(loads[bag]), speed});
    }
    return latest;
  }
  /// The least makespan of all assignments that keep to everything asked for; none, if none does.
  [[nodiscard]] std::optional<ballast::ratio> optimum() const
  {
    return least_of_all(costs.size(), gpus.size(), [&](assignment const& owner) {
      return keeps(owner) ? std::optional(makespan(owner)) : std::nullopt;
    });
  }
};

/// Plans such a step, of samples that are their numbers.
template <std::size_t D, class Policy>
ballast::result<ballast::cost_vector_plan<D>> plan_vectors(vector_step<D> const& step,
                                                           Policy const& policy)
{
  std::vector<std::size_t> numbers(step.costs.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  ballast::placement_limits given{.together = step.together};
  if (step.is_limited()) { given.also = {{.of = step.weights, .most_per_gpu = step.most_per_gpu}}; }
  return ballast::partition(
      numbers, consecutive_bags(step.gpus, step.gpu_speeds),
      [&](std::size_t sample) { return step.costs[sample]; },
      [&](std::size_t sample) { return step.lengths.empty() ? 0 : step.lengths[sample]; }, given,
      policy);
}

/// Plans samples without lengths in equal bags.
template <class Samples, class Policy>
auto plan_in_bins(Samples const& samples, std::size_t bins, Policy const& policy,
                  ballast::placement_limits const& constraints = {})
{
  return ballast::partition(samples, ballast::one_gpu_bags(bins), std::identity{},
                            ballast::no_length{}, constraints, policy);
}

/// A random step in equal bags that hold anything: ties, zeros, samples with no work in some
/// dimension, and dimensions of which one has hardly any work are frequent.
template <std::size_t D>
vector_step<D> random_vectors(ballast::random_source& random, std::size_t most_samples,
                              std::size_t most_bins)
{
  vector_step<D> step;
  step.gpus.assign(1 + random.below(most_bins), 1);
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

/// The same in bags of several sizes and speeds. Samples too short for some bags, limits that are
/// tight or cannot be kept, and none, are frequent; the first bag has one GPU, so every sample fits
/// some bag.
template <std::size_t D>
vector_step<D> random_bag_vectors(ballast::random_source& random, std::size_t most_samples,
                                  std::size_t most_bags)
{
  auto step = random_vectors<D>(random, most_samples, most_bags);
  bool const one_speed = random.below(3) == 0;
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    step.lengths.push_back(random.between(0, 6));
    step.weights.push_back(random.between(0, 9));
  }
  for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
    step.gpus[bag] = bag == 0 ? 1 : 1U << random.below(3);
    step.gpu_speeds.push_back(one_speed ? 1 : 1 + static_cast<std::uint32_t>(random.below(3)));
  }
  if (random.below(4) != 0) {
    std::int64_t const all = std::reduce(step.weights.begin(), step.weights.end());
    auto const share = all / std::reduce(step.gpus.begin(), step.gpus.end(), std::int64_t{0});
    step.most_per_gpu = share + random.between(0, 4);
  }
  return step;
}

/// What every plan promises, recomputed from the bags of the samples alone.
template <std::size_t D>
void expect_valid_vector_plan(vector_step<D> const& step, ballast::cost_vector_plan<D> const& plan)
{
  ASSERT_EQ(plan.owner.size(), step.costs.size());
  auto const owner = assignment_of(plan.owner);
  for (std::size_t const bag : owner) { ASSERT_LT(bag, step.gpus.size()); }
  EXPECT_TRUE(step.keeps(owner));
  EXPECT_EQ(plan.loads, loads_of(step.costs, owner, idle<D>(step.gpus.size())));
  EXPECT_EQ(plan.makespan, step.makespan(owner));
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

/// Runs a policy over random steps of one, two and three dimensions, among them no samples, fewer
/// samples than bins and a single bin; and work that bins have before planning enters the loads and
/// stays in them.
template <class Policy>
void expect_valid_vector_plans(Policy const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  auto const try_dimensions = [&]<std::size_t D>(vector_step<D> const& step) {
    auto const plan = plan_vectors(step, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_vector_plan(step, *plan);
  };
  for (int trial = 0; trial < trials_of(1000) && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    try_dimensions(random_vectors<1>(random, 40, 9));
    try_dimensions(random_vectors<2>(random, 40, 9));
    try_dimensions(random_vectors<3>(random, 40, 9));
  }
  std::vector<ballast::cost_vector<2>> const costs{{5, 1}, {4, 4}, {1, 3}};
  std::vector<ballast::cost_vector<2>> loads{{100, 0}, {1, 90}};
  auto const before = loads;
  std::vector<ballast::bag_id> owner(3);
  ballast::workspace memory;
  policy(ballast::cost_vector_problem<2>{costs}, std::span(loads), std::span(owner), memory);
  EXPECT_EQ(loads, loads_of(costs, assignment_of(owner), before));
}

/// Satisfies cost_vector_policy and nothing more, and is as bad as can be: everything in the
/// first bin.
struct all_in_first_bin {
  template <std::size_t D>
  void operator()(ballast::cost_vector_problem<D> const& problem,
                  std::span<ballast::cost_vector<D>> loads, std::span<ballast::bag_id> owner,
                  ballast::workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = ballast::bag_id{0};
      for (std::size_t d = 0; d < D; ++d) { loads[0][d] += problem.costs[sample][d]; }
    }
  }
};

}  // namespace ballast_test
