// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"  // defines: ballast_test::heaviest_first

#include <ballast/core.hpp>

namespace ballast_test {

/// Oracle of quality, for bags of one speed: the makespan of local search as one writes it in
/// thirty lines. Heaviest first to the least loaded bag with room; then the move or the swap of the
/// fullest bag with another one that leaves the least larger load of both, until none helps.
/// `weights`, where they are given, may be `most` in each bag. Nothing where some sample finds no
/// room.
inline std::optional<ballast::cost_units> plain_swaps(
    std::vector<ballast::cost_units> costs, std::size_t count,
    std::vector<std::int64_t> weights = {},
    std::int64_t most = std::numeric_limits<std::int64_t>::max())
{
  weights.resize(costs.size());
  auto const order = heaviest_first(costs);
  costs.push_back(0);  // what is swapped for nothing
  weights.push_back(0);
  std::vector<ballast::cost_units> loads(count, 0);
  std::vector<std::int64_t> held(count, 0);
  std::vector<std::vector<std::size_t>> bags(count, {costs.size() - 1});
  for (std::size_t const sample : order) {
    std::optional<std::size_t> best;
    for (std::size_t bag = 0; bag < count; ++bag) {
      bool const has_room = held[bag] + weights[sample] <= most;
      if (has_room && (!best || loads[bag] < loads[*best])) { best = bag; }
    }
    if (!best) { return std::nullopt; }
    loads[*best] += costs[sample];
    held[*best] += weights[sample];
    bags[*best].push_back(sample);
  }
  for (;;) {
    auto const full = static_cast<std::size_t>(std::ranges::max_element(loads) - loads.begin());
    ballast::cost_units least = loads[full];
    std::size_t* give = nullptr;
    std::size_t* take = nullptr;
    std::size_t other = full;
    for (std::size_t bag = 0; bag < count; ++bag) {
      if (bag == full) { continue; }
      for (std::size_t& given : bags[full]) {
        for (std::size_t& taken : bags[bag]) {
          ballast::cost_units const net = costs[given] - costs[taken];
          std::int64_t const weight = weights[given] - weights[taken];
          if (net <= 0 || held[bag] + weight > most || held[full] - weight > most) { continue; }
          ballast::cost_units const larger = std::max(loads[full] - net, loads[bag] + net);
          if (larger < least) { least = larger, give = &given, take = &taken, other = bag; }
        }
      }
    }
    if (give == nullptr) { return loads[full]; }
    loads[full] += costs[*take] - costs[*give];
    loads[other] += costs[*give] - costs[*take];
    held[full] += weights[*take] - weights[*give];
    held[other] += weights[*give] - weights[*take];
    std::swap(*give, *take);
    for (std::size_t const bag : {full, other}) {  // of what is nothing, one is kept
      std::erase(bags[bag], costs.size() - 1);
      bags[bag].push_back(costs.size() - 1);
    }
  }
}

}  // namespace ballast_test
