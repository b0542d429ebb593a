// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_BAG_VECTORS_HPP
#define BALLAST_TESTS_SUPPORT_BAG_VECTORS_HPP

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace ballast_test {

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
  auto const speeds = step.speeds();
  bool const limited = step.most_per_gpu != ballast::partition_constraints::no_limit;
  std::vector<std::int64_t> room = limited ? step.capacities() : std::vector<std::int64_t>{};
  std::vector<ballast::cost_vector<D>> loads(step.gpus.size(), ballast::cost_vector<D>{});
  std::vector<std::size_t> owner;
  std::optional<ballast::ratio> best;
  auto const assign = [&](auto const& self, ballast::ratio latest) -> void {
    if (best && latest >= *best) { return; }
    std::size_t const sample = owner.size();
    if (sample == step.costs.size()) {
      best = latest;
      return;
    }
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      if (!ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag])) { continue; }
      if (limited && room[bag] < step.weights[sample]) { continue; }
      bool apart = false;
      for (std::size_t other = 0; !step.together.empty() && other < sample; ++other) {
        apart = apart || (step.together[other] == step.together[sample] && owner[other] != bag);
      }
      if (apart) { continue; }
      auto const before = loads[bag];
      auto later = latest;
      for (std::size_t d = 0; d < D; ++d) {
        loads[bag][d] += step.costs[sample][d];
        later = std::max(later, ballast::ratio{loads[bag][d], speeds[bag]});
      }
      if (limited) { room[bag] -= step.weights[sample]; }
      owner.push_back(bag);
      self(self, later);
      owner.pop_back();
      if (limited) { room[bag] += step.weights[sample]; }
      loads[bag] = before;
    }
  };
  assign(assign, {});
  return best;
}

/// What every plan promises, recomputed from the bags of the samples alone. Without a limit a bag
/// may weigh anything; `complete` says that every sample has to have a bag.
template <std::size_t D, class Id>
void expect_kept_in_bags(bag_vectors<D> const& step, std::vector<Id> const& owner,
                         std::vector<ballast::cost_vector<D>> const& loads, bool complete = true)
{
  std::vector<ballast::cost_vector<D>> recomputed(step.gpus.size(), ballast::cost_vector<D>{});
  std::vector<std::int64_t> held(step.gpus.size(), 0);
  ASSERT_EQ(owner.size(), step.costs.size());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bag = to_index(owner[sample]);
    if (!complete && bag == step.gpus.size()) { continue; }
    ASSERT_LT(bag, step.gpus.size());
    EXPECT_TRUE(ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag]));
    held[bag] += step.weights[sample];
    for (std::size_t d = 0; d < D; ++d) { recomputed[bag][d] += step.costs[sample][d]; }
    for (std::size_t other = 0; !step.together.empty() && other < sample; ++other) {
      if (step.together[other] == step.together[sample]) { EXPECT_EQ(owner[other], owner[sample]); }
    }
  }
  EXPECT_EQ(loads, recomputed);
  if (step.most_per_gpu == ballast::partition_constraints::no_limit) { return; }
  for (std::size_t bag = 0; bag < held.size(); ++bag) {
    EXPECT_LE(held[bag], step.most_per_gpu * step.gpus[bag]);
  }
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_BAG_VECTORS_HPP
