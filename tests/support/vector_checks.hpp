// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"
#include "test.hpp"
#include "trials.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

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
  EXPECT_EQ(plan.loads, loads_of(step.costs, assignment_of(plan.owner), idle<D>(step.bins)));
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
  auto const before = loads;
  std::vector<ballast::bag_id> owner(3);
  ballast::workspace memory;
  policy(ballast::cost_vector_problem<2>{costs}, std::span(loads), std::span(owner), memory);
  EXPECT_EQ(loads, loads_of(costs, assignment_of(owner), before));
}

/// The least makespan of the assignments that `allowed(owner)` holds for, in bags of these speeds;
/// nothing where there is none.
template <std::size_t D, class Allowed>
std::optional<ballast::ratio> vector_optimum(std::vector<ballast::cost_vector<D>> const& costs,
                                             std::vector<std::uint32_t> const& speeds,
                                             Allowed const& allowed)
{
  return least_of_all(
      costs.size(), speeds.size(), [&](assignment const& owner) -> std::optional<ballast::ratio> {
        if (!allowed(owner)) { return std::nullopt; }
        auto const loads = loads_of(costs, owner, idle<D>(speeds.size()));
        ballast::ratio latest;
        for (std::size_t bag = 0; bag < loads.size(); ++bag) {
          latest = std::max(latest, ballast::ratio{std::ranges::max(loads[bag]), speeds[bag]});
        }
        return latest;
      });
}

template <std::size_t D>
ballast::cost_units optimum(vector_instance<D> const& step)
{
  return vector_optimum(step.costs, std::vector<std::uint32_t>(step.bins, 1),
                        [](assignment const&) { return true; })
      ->numerator;
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
  friend bool operator==(all_in_first_bin, all_in_first_bin) = default;
};

/// Samples with D costs, a length and a weight each, and bags of GPUs of several speeds that hold
/// some weight per GPU. Samples with one key stay together; without keys they do not.
template <std::size_t D>
struct bag_vectors {
  std::vector<ballast::cost_vector<D>> costs;
  std::vector<ballast::tokens> lengths;
  std::vector<std::int64_t> weights;
  std::vector<std::uint32_t> gpus{1};
  std::vector<std::uint32_t> gpu_speeds{1};  // of each bag's GPUs
  std::int64_t most_per_gpu = ballast::partition_constraints::no_limit;
  std::vector<std::int64_t> together = {};

  [[nodiscard]] ballast::bag_layout bags() const
  {
    std::vector<ballast::bag> all;
    std::vector<std::uint32_t> speeds;
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      all.push_back({ballast::to_id<ballast::rank_id>(speeds.size()), gpus[bag]});
      speeds.insert(speeds.end(), gpus[bag], gpu_speeds[bag]);
    }
    return ballast::bag_layout(all, speeds);
  }

  [[nodiscard]] ballast::partition_constraints constraints() const
  {
    ballast::partition_constraints all{.together = together, .most_per_gpu = most_per_gpu};
    if (most_per_gpu != all.no_limit) { all.weights = weights; }
    return all;
  }

  [[nodiscard]] std::vector<std::uint32_t> speeds() const
  {
    std::vector<std::uint32_t> all(gpus.size());
    for (std::size_t bag = 0; bag < all.size(); ++bag) { all[bag] = gpus[bag] * gpu_speeds[bag]; }
    return all;
  }

  [[nodiscard]] std::vector<std::int64_t> capacities() const
  {
    std::vector<std::int64_t> all(gpus.begin(), gpus.end());
    for (auto& each : all) { each *= most_per_gpu; }
    return all;
  }
  /// Whether these owners of the first samples keep to everything asked for.
  [[nodiscard]] bool keeps(assignment const& owner) const
  {
    bool kept = true;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      kept = kept && (lengths[sample] == 0 || lengths[sample] >= std::int64_t{gpus[owner[sample]]});
      for (std::size_t other = 0; !together.empty() && other < sample; ++other) {
        kept = kept && (together[other] != together[sample] || owner[other] == owner[sample]);
      }
    }
    if (!kept || most_per_gpu == ballast::partition_constraints::no_limit) { return kept; }
    auto const held = sums_of(owner, weights, std::vector<std::int64_t>(gpus.size(), 0));
    auto const most = capacities();
    return std::equal(held.begin(), held.end(), most.begin(), std::less_equal<std::int64_t>{});
  }
};

/// What a policy gets of samples that need not stay together, and the arrays that it refers to.
template <std::size_t D>
struct bag_vector_problem {
  bag_vectors<D> step;
  std::vector<std::uint32_t> speeds = step.speeds();
  bool limited = step.most_per_gpu != ballast::partition_constraints::no_limit;
  std::vector<std::int64_t> capacities = limited ? step.capacities() : std::vector<std::int64_t>{};

  [[nodiscard]] ballast::cost_vector_problem<D> view() const
  {
    ballast::cost_vector_problem<D> problem{step.costs, step.lengths, step.gpus, speeds};
    if (limited) {
      problem.weights = step.weights;
      problem.capacities = capacities;
    }
    return problem;
  }
};

/// A random step. Ties, zeros, samples too short for some bags, limits that are tight or cannot be
/// kept, and none, are frequent; the first bag has one GPU, so every sample fits some bag.
template <std::size_t D>
bag_vectors<D> random_bag_vectors(ballast::random_source& random, std::size_t most_samples,
                                  std::size_t most_bags)
{
  bag_vectors<D> step;
  std::size_t const samples = random.below(most_samples + 1);
  std::int64_t const heaviest = random.below(2) == 0 ? 6 : 1000;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    ballast::cost_vector<D> cost;
    for (auto& part : cost) { part = random.below(4) == 0 ? 0 : random.between(0, heaviest); }
    step.costs.push_back(cost);
    step.lengths.push_back(random.between(0, 6));
    step.weights.push_back(random.between(0, 9));
  }
  bool const one_speed = random.below(3) == 0;
  std::size_t const bags = random.below(most_bags);
  for (std::size_t bag = 0; bag < bags; ++bag) {
    step.gpus.push_back(1U << random.below(3));
    step.gpu_speeds.push_back(one_speed ? 1 : 1 + static_cast<std::uint32_t>(random.below(3)));
  }
  if (random.below(4) != 0) {
    std::int64_t const all = std::reduce(step.weights.begin(), step.weights.end());
    auto const share = all / std::reduce(step.gpus.begin(), step.gpus.end(), std::int64_t{0});
    step.most_per_gpu = share + random.between(0, 4);
  }
  return step;
}

/// The least makespan of all assignments that keep to everything asked for; none, if none does.
template <std::size_t D>
std::optional<ballast::ratio> best_in_bags(bag_vectors<D> const& step)
{
  return vector_optimum(step.costs, step.speeds(),
                        [&](assignment const& owner) { return step.keeps(owner); });
}

/// What every plan promises, recomputed from the bags of the samples alone.
template <std::size_t D>
void expect_kept_in_bags(bag_vectors<D> const& step, ballast::cost_vector_plan<D> const& plan)
{
  ASSERT_EQ(plan.owner.size(), step.costs.size());
  auto const owner = assignment_of(plan.owner);
  for (std::size_t const bag : owner) { ASSERT_LT(bag, step.gpus.size()); }
  EXPECT_TRUE(step.keeps(owner));
  EXPECT_EQ(plan.loads, loads_of(step.costs, owner, idle<D>(step.gpus.size())));
}

}  // namespace ballast_test
