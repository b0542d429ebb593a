// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_INSTANCES_HPP
#define BALLAST_TESTS_SUPPORT_INSTANCES_HPP

#include "brute_force.hpp"  // defines: ballast_test::instance

#include <ballast/core/random.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

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

/// The cost of such a sample, half of which is attention.
struct instance_cost {
  instance const& step;

  ballast::cost_units operator()(numbered n) const { return step.costs[n.sample]; }
  [[nodiscard]] ballast::cost_units attention_part(numbered n) const
  {
    return step.costs[n.sample] / 2;
  }
};

/// Plans an instance through the front door.
template <class Policy>
auto plan_instance(instance const& step, Policy const& policy)
{
  return ballast::partition(number_samples(step), consecutive_bags(step.gpus, step.gpu_speeds),
                            policy, instance_cost{step},
                            [&](numbered n) { return step.lengths[n.sample]; });
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_INSTANCES_HPP
