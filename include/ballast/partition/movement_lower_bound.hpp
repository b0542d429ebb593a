// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_MOVEMENT_LOWER_BOUND_HPP
#define BALLAST_PARTITION_MOVEMENT_LOWER_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// How many tokens at least leave home in every plan that keeps all loads within limits.
///
/// Samples that do not fit their home leave. The work of the others that is above a bag's limit has
/// to leave too. That takes at least as many tokens as if samples could be cut, those with most work
/// per token first: the linear relaxation of a knapsack cover for each bag.
///
/// Shapes      starting_loads[m], limits[m]; the problem has a home[n].
/// Expects     no starting load is above its limit.
/// Ensures     (1) no plan within the limits moves fewer tokens
/// Complexity  O(n log n); 8 bytes of scratch per sample, 8 per bag.
[[nodiscard]] inline tokens movement_lower_bound(partition_problem const& problem,
                                                 std::span<cost_units const> starting_loads,
                                                 std::span<cost_units const> limits,
                                                 workspace& memory)
{
  std::size_t const samples = problem.costs.size();
  BALLAST_EXPECTS(problem.home.size() == samples && starting_loads.size() == limits.size());
  auto scratch = memory.open();
  std::span<cost_units> const excess = scratch.take<cost_units>(limits.size());
  for (std::size_t bag = 0; bag < limits.size(); ++bag) {
    excess[bag] = starting_loads[bag] - limits[bag];
  }
  tokens moved = 0;
  std::span<std::uint32_t> by_work_per_token = scratch.take<std::uint32_t>(samples);
  std::size_t staying = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    std::size_t const home = to_index(problem.home[sample]);
    if (partition_problem::fits(problem.lengths[sample], problem.gpus[home])) {
      excess[home] += problem.costs[sample];
      by_work_per_token[staying++] = static_cast<std::uint32_t>(sample);
    } else {
      moved += problem.tokens_of(sample);
    }
  }
  by_work_per_token = by_work_per_token.first(staying);
  std::sort(by_work_per_token.begin(), by_work_per_token.end(),
            [&](std::uint32_t a, std::uint32_t b) {
              // length / cost: samples without tokens come first and those without work last.
              auto const price = [&](std::uint32_t sample) {
                cost_units const cost = problem.costs[sample];
                return cost > 0 ? ratio{problem.tokens_of(sample), cost} : ratio{no_cost, 1};
              };
              return price(a) < price(b) || (price(a) == price(b) && a < b);
            });
  for (std::uint32_t const sample : by_work_per_token) {
    cost_units& over = excess[to_index(problem.home[sample])];
    if (over <= 0) { continue; }
    cost_units const cost = problem.costs[sample];
    tokens const length = problem.tokens_of(sample);
    if (cost <= over) {
      moved += length;
    } else {
      uint128 const part =
          uint128{static_cast<std::uint64_t>(over)} * static_cast<std::uint64_t>(length);
      auto const all = static_cast<std::uint64_t>(cost);
      moved += static_cast<tokens>((part + all - 1) / all);
    }
    over -= cost;
  }
  return moved;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_MOVEMENT_LOWER_BOUND_HPP
