// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_PLAIN_SWAPS_HPP
#define BALLAST_TESTS_SUPPORT_PLAIN_SWAPS_HPP

#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace ballast_test {

/// Oracle of quality, for bags of one speed: the makespan of twenty lines of local search. From
/// longest_processing_time's plan, the fullest bag and another one swap the two samples that leave
/// the least larger load of both, until no swap helps.
inline ballast::cost_units plain_swaps(std::vector<ballast::cost_units> costs, std::size_t count)
{
  std::sort(costs.begin(), costs.end(), std::greater{});
  std::vector<ballast::cost_units> loads(count, 0);
  std::vector<std::vector<ballast::cost_units>> bags(count);
  for (ballast::cost_units const cost : costs) {
    auto const lightest = static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
    loads[lightest] += cost;
    bags[lightest].push_back(cost);
  }
  while (true) {
    auto const full = static_cast<std::size_t>(std::ranges::max_element(loads) - loads.begin());
    ballast::cost_units best = loads[full];
    ballast::cost_units* give = nullptr;
    ballast::cost_units* take = nullptr;
    std::size_t other = full;
    for (std::size_t bag = 0; bag < count; ++bag) {
      if (bag == full) { continue; }
      for (ballast::cost_units& given : bags[full]) {
        for (ballast::cost_units& taken : bags[bag]) {
          ballast::cost_units const net = given - taken;
          ballast::cost_units const larger = std::max(loads[full] - net, loads[bag] + net);
          if (larger < best) { best = larger, give = &given, take = &taken, other = bag; }
        }
      }
    }
    if (give == nullptr) { return loads[full]; }
    loads[full] += *take - *give;
    loads[other] += *give - *take;
    std::swap(*give, *take);
  }
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_PLAIN_SWAPS_HPP
