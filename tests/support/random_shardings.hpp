// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sharding_oracles.hpp"

#include <ballast/core.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace ballast_test {

enum class sharded_lengths : std::uint8_t {
  any,
  near_equal,
  one_giant,
  tiny,
  powers_of_two,
  two_values,
  short_and_long
};

[[nodiscard]] inline std::vector<ballast::tokens> draw_sharded_lengths(
    sharded_lengths family, std::size_t count, ballast::random_source& random)
{
  std::vector<ballast::tokens> lengths(count);
  for (std::size_t each = 0; each < count; ++each) {
    switch (family) {
      case sharded_lengths::any: lengths[each] = random.between(0, 5000); break;
      case sharded_lengths::near_equal: lengths[each] = random.between(1000, 1020); break;
      case sharded_lengths::one_giant:
        lengths[each] = each == 0 ? 50'000 : random.between(1, 1000);
        break;
      case sharded_lengths::tiny: lengths[each] = random.between(0, 12); break;
      case sharded_lengths::powers_of_two:
        lengths[each] = ballast::tokens{1} << random.below(14);
        break;
      case sharded_lengths::two_values: lengths[each] = random.below(3) == 0 ? 2048 : 1024; break;
      case sharded_lengths::short_and_long:
        lengths[each] = 4 * each < 3 * count ? 600 : 24'000;
        break;
    }
  }
  return lengths;
}

/// Uneven nodes, heads that are no power of two, links from slow to fast, memory from plenty to so
/// little that it forces degrees.
[[nodiscard]] inline sharding_step draw_sharding(std::size_t most_samples,
                                                 std::uint32_t largest_node,
                                                 ballast::random_source& random)
{
  constexpr std::array<std::uint32_t, 7> heads = {1, 2, 4, 6, 12, 28, 32};
  sharding_step step;
  std::vector<std::uint32_t> nodes(1 + random.below(3));
  bool const alike = random.below(2) == 0;
  for (auto& node : nodes) {
    node = alike && &node != nodes.data()
               ? nodes[0]
               : 1 + static_cast<std::uint32_t>(random.below(largest_node));
  }
  switch (largest_node >= 8 ? random.below(12) : 12) {
    case 0: nodes = {6, 8, 5}; break;
    case 1: nodes = {6, 8}; break;
    case 2: nodes = {3, 3, 2}; break;
    case 3: nodes = {5}; break;
    default: break;
  }
  std::uint64_t const largest_degree = random.below(3) == 0 ? 1 + random.below(8) : 64;
  step.groups = ballast::device_groups(ballast::node_sizes(nodes),
                                       static_cast<std::uint32_t>(largest_degree));
  step.cost.heads = heads[random.below(heads.size())];
  step.cost.work = {.linear = 1 + random.below(1000), .quadratic = random.below(3)};
  step.cost.bytes_per_head = random.below(3) == 0 ? 0 : random.below(200);
  step.cost.within_node_bytes_per_second = 1 + 9 * random.below(100);
  step.cost.between_nodes_bytes_per_second = 1 + random.below(100);
  step.cost.units_per_second = 1 + random.below(100);
  step.cost.latency = static_cast<ballast::cost_units>(random.below(3) * random.below(1000));
  step.lengths = draw_sharded_lengths(static_cast<sharded_lengths>(random.below(7)),
                                      random.below(most_samples + 1), random);
  ballast::tokens sum = 0;
  for (ballast::tokens const length : step.lengths) { sum += length; }
  ballast::tokens const mean = sum / static_cast<ballast::tokens>(step.groups.gpus()) + 1;
  std::array<ballast::tokens, 4> const limits = {ballast::no_limit / 2, ballast::no_limit / 2,
                                                 2 * mean, mean + mean / 8 + 1};
  step.limit = limits[random.below(limits.size())];
  return step;
}

}  // namespace ballast_test
