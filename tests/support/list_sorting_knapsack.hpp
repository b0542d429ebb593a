// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"  // defines: ballast_test::heaviest_first

#include <ballast/core.hpp>

#include <tuple>

namespace ballast_test {

/// Occupancy compared exactly, for the oracle of greedy_knapsack.
struct exact_occupancy {
  ballast::ratio operator()(ballast::cost_units load, std::uint32_t speed, double) const
  {
    return {load, speed};
  }
};

/// Occupancy as a floating-point quotient, as the public planner has it, for the benchmark.
struct floating_occupancy {
  double operator()(ballast::cost_units load, std::uint32_t speed, double mean) const
  {
    return static_cast<double>(load) / (mean * speed);
  }
};

/// KnapFormer's planner as it is published: every sample, heaviest first, collects the bags that
/// may take it into a list, sorts the list by occupancy and takes the front. O(n m log m). Without
/// speeds, a bag is as fast as it has GPUs.
template <class Occupancy>
std::vector<ballast::bag_id> list_sorting_knapsack(std::span<ballast::cost_units const> costs,
                                                   std::span<ballast::tokens const> lengths,
                                                   std::span<std::uint32_t const> gpus,
                                                   bool remaining_capacity, Occupancy occupancy,
                                                   std::span<std::uint32_t const> speeds = {})
{
  using ballast::cost_units;
  using ballast::tokens;
  using ballast::uint128;
  cost_units const total = std::accumulate(costs.begin(), costs.end(), cost_units{0});
  if (speeds.empty()) { speeds = gpus; }
  std::uint64_t const all_speeds = std::accumulate(speeds.begin(), speeds.end(), std::uint64_t{0});
  double const mean = static_cast<double>(total) / static_cast<double>(all_speeds);

  std::vector<cost_units> loads(gpus.size(), 0);
  std::vector<ballast::bag_id> owner(costs.size());
  std::vector<std::size_t> candidates;
  for (std::size_t const sample : heaviest_first(costs)) {
    auto const long_enough = [&](std::size_t bag) {
      return lengths[sample] == 0 || lengths[sample] >= static_cast<tokens>(gpus[bag]);
    };
    candidates.clear();
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      cost_units const filled = (remaining_capacity ? loads[bag] : 0) + costs[sample];
      bool const has_room =
          static_cast<uint128>(filled) * all_speeds <= static_cast<uint128>(total) * speeds[bag];
      if (has_room && long_enough(bag)) { candidates.push_back(bag); }
    }
    if (candidates.empty()) {
      std::uint32_t largest = 0;
      for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
        if (long_enough(bag)) { largest = std::max(largest, gpus[bag]); }
      }
      for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
        if (gpus[bag] == largest) { candidates.push_back(bag); }
      }
    }
    std::ranges::sort(candidates, [&](std::size_t a, std::size_t b) {
      auto const of_a = occupancy(loads[a], speeds[a], mean);
      auto const of_b = occupancy(loads[b], speeds[b], mean);
      if (of_a < of_b || of_b < of_a) { return of_a < of_b; }
      return std::tuple(gpus[a], speeds[a], a) < std::tuple(gpus[b], speeds[b], b);
    });
    loads[candidates.front()] += costs[sample];
    owner[sample] = ballast::to_id<ballast::bag_id>(candidates.front());
  }
  return owner;
}

}  // namespace ballast_test
