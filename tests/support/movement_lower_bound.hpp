// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast_test {

/// How many tokens at least leave home in every plan that keeps all loads within limits.
///
/// Tokens that do not lie where most of their sample's lie move, and so do samples that do not fit
/// their home. The work of the others that is above a bag's limit has to leave too. That takes at
/// least as many tokens as if samples could be cut, those with most work per token first: the
/// linear relaxation of a knapsack cover for each bag. What a sample adds that leaves is what it
/// has there above the second most in any bag that it fits.
///
/// Shapes      starting_loads[m], limits[m]; the problem has a home[n].
/// Expects     no starting load is above its limit.
/// Ensures     (1) no plan within the limits moves fewer tokens
/// Complexity  O(n log n); 16 bytes of scratch per sample, 8 per bag.
[[nodiscard]] inline ballast::tokens movement_lower_bound(
    ballast::partition_problem const& problem, std::span<ballast::cost_units const> starting_loads,
    std::span<ballast::cost_units const> limits, ballast::workspace& memory)
{
  std::size_t const samples = problem.costs.size();
  auto scratch = memory.open();
  std::span<ballast::cost_units> const excess = scratch.take<ballast::cost_units>(limits.size());
  for (std::size_t bag = 0; bag < limits.size(); ++bag) {
    excess[bag] = starting_loads[bag] - limits[bag];
  }
  struct staying_sample {
    ballast::tokens to_leave;  ///< how many more tokens move if it does
    std::uint32_t sample;
    std::uint32_t bag;
  };
  std::span<staying_sample> by_work_per_token = scratch.take<staying_sample>(samples);
  std::size_t staying = 0;
  ballast::tokens moved = 0;
  for (std::uint32_t sample = 0; sample < samples; ++sample) {
    ballast::bag_id best{};
    ballast::tokens most = 0;
    ballast::tokens second = 0;
    problem.for_each_home(sample, [&](ballast::bag_id bag, ballast::tokens length) {
      if (!problem.fits(sample, ballast::to_index(bag))) { return; }
      second = std::max(second, std::min(most, length));
      best = length > most ? bag : best;
      most = std::max(most, length);
    });
    moved += problem.tokens_of(sample) - most;
    if (most == second) { continue; }  // it leaves for nothing
    excess[ballast::to_index(best)] += problem.costs[sample];
    by_work_per_token[staying++] = {most - second, sample, static_cast<std::uint32_t>(best)};
  }
  by_work_per_token = by_work_per_token.first(staying);
  std::sort(by_work_per_token.begin(), by_work_per_token.end(),
            [&](staying_sample const& a, staying_sample const& b) {
              // length / cost: samples without work come last.
              auto const price = [&](staying_sample const& each) {
                ballast::cost_units const cost = problem.costs[each.sample];
                return cost > 0 ? ballast::ratio{each.to_leave, cost}
                                : ballast::ratio{ballast::no_cost, 1};
              };
              return price(a) < price(b) || (price(a) == price(b) && a.sample < b.sample);
            });
  for (staying_sample const& each : by_work_per_token) {
    ballast::cost_units& over = excess[each.bag];
    if (over <= 0) { continue; }
    ballast::cost_units const cost = problem.costs[each.sample];
    if (cost <= over) {
      moved += each.to_leave;
    } else {
      ballast::uint128 const part = ballast::uint128{static_cast<std::uint64_t>(over)} *
                                    static_cast<std::uint64_t>(each.to_leave);
      auto const all = static_cast<std::uint64_t>(cost);
      moved += static_cast<ballast::tokens>((part + all - 1) / all);
    }
    over -= cost;
  }
  return moved;
}

}  // namespace ballast_test
