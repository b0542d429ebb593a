// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "brute_force.hpp"  // defines: ballast_test::instance

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace ballast_test {

/// A random step whose samples all fit some bag: ties, zeros and short samples are frequent, and in
/// every third step GPUs differ in speed.
inline instance random_instance(ballast::random_source& random, std::size_t most_samples,
                                std::size_t most_bags, std::uint32_t largest_bag)
{
  instance step;
  step.gpus.resize(1 + random.below(most_bags));
  for (auto& gpus : step.gpus) { gpus = static_cast<std::uint32_t>(1 + random.below(largest_bag)); }
  if (random.below(3) == 0) {
    step.gpu_speeds.resize(step.gpus.size());
    for (auto& speed : step.gpu_speeds) { speed = static_cast<std::uint32_t>(1 + random.below(4)); }
  }
  auto const smallest = static_cast<ballast::tokens>(std::ranges::min(step.gpus));
  std::size_t const samples = random.below(most_samples + 1);
  std::int64_t const heaviest = random.below(2) == 0 ? 5 : 1000;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    step.lengths.push_back(random.below(8) == 0 ? 0 : smallest + random.between(0, 4));
    step.costs.push_back(random.between(0, heaviest));
  }
  return step;
}

/// A step of bags of one GPU whose costs a search by the lightest samples makes nothing of. By
/// turns: nearly equal costs with a few light ones; two kinds that are 3 % apart within a kind; 5 %
/// short samples among long ones; ties; nearly equal costs and one giant.
inline instance near_equal_step(ballast::random_source& random, std::size_t samples,
                                std::size_t bags)
{
  instance step;
  step.gpus.assign(bags, 1);
  auto const family = random.below(5);
  ballast::cost_units const most = random.below(2) == 0 ? 1000 : 100'000;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    ballast::cost_units cost = random.between(most * 9 / 10, most);
    if (family == 0 && random.below(50) == 0) { cost = random.between(1, most / 5); }
    if (family == 1) {
      cost = most * (random.below(3) == 0 ? 4 : 1) + random.between(0, most / 30);
    }
    if (family == 2) {
      cost = random.below(20) == 0 ? random.between(1, most / 4) : most + cost / 50;
    }
    if (family == 3) { cost = most + random.between(0, 2); }
    if (family == 4 && sample == 0) {
      cost = most * static_cast<ballast::cost_units>(samples / bags);
    }
    step.costs.push_back(cost);
    step.lengths.push_back(1);
  }
  return step;
}

/// Work that grows faster than lengths, as attention does.
inline constexpr auto quadratic_work = [](ballast::tokens length) {
  return length * length + 100 * length;
};

/// Bags of the given sizes on consecutive ranks, of GPUs of the given speed each, or all alike.
inline ballast::bag_layout consecutive_bags(std::vector<std::uint32_t> const& gpus,
                                            std::vector<std::uint32_t> const& gpu_speeds = {})
{
  std::vector<ballast::bag> bags;
  std::vector<std::uint32_t> speeds;
  std::size_t first = 0;
  for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
    bags.push_back({ballast::to_id<ballast::rank_id>(first), gpus[bag]});
    if (!gpu_speeds.empty()) { speeds.insert(speeds.end(), gpus[bag], gpu_speeds[bag]); }
    first += gpus[bag];
  }
  return ballast::bag_layout(bags, speeds);
}

/// Samples of an instance by number, for the front door's projections.
struct numbered {
  std::size_t sample;
};
inline std::vector<numbered> number_samples(instance const& step)
{
  std::vector<numbered> samples(step.costs.size());
  for (std::size_t sample = 0; sample < samples.size(); ++sample) { samples[sample] = {sample}; }
  return samples;
}

/// The cost of such a sample, of which attention is what is padded, or half.
struct instance_cost {
  instance const& step;

  ballast::cost_units operator()(numbered n) const { return step.costs[n.sample]; }
  [[nodiscard]] ballast::cost_units attention_part(numbered n) const
  {
    return step.padded.empty() ? step.costs[n.sample] / 2 : step.padded[n.sample];
  }
};

/// Any policy by reference, so that the front door is compiled once for all policies of a test.
struct policy_ref : ballast::detail::policy_ref<ballast::cost_units> {
  template <ballast::partition_policy Policy>
    requires(!std::derived_from<Policy, ballast::detail::policy_ref<ballast::cost_units>>)
  policy_ref(Policy const& policy)  // NOLINT(google-explicit-constructor): a reference
      : ballast::detail::policy_ref<ballast::cost_units>(policy)
  {}
};

/// Plans an instance through the front door.
inline ballast::result<ballast::partition_plan> plan_instance(instance const& step,
                                                              policy_ref const& policy,
                                                              ballast::placement_limits given = {})
{
  given.starting_loads = step.before;
  return ballast::partition(
      number_samples(step), consecutive_bags(step.gpus, step.gpu_speeds), instance_cost{step},
      [&](numbered n) { return step.lengths[n.sample]; }, given, policy);
}

}  // namespace ballast_test
