// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_WAITING_BOUND_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_WAITING_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/synchronised_steps.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Which tasks an order gives to the steps, and which two tasks it puts into one step.
enum class step_tasks : std::uint8_t {
  longest_opposite,   ///< the longest of each column, long ones with short ones
  longest_similar,    ///< the longest of each, long ones with long ones
  shortest_opposite,  ///< the shortest of each, long ones with short ones
  shortest_similar    ///< the shortest of each, long ones with long ones
};

/// How long one rank takes in each step at an extreme, in increasing order.
///
/// The total of a convex function of these times is least where the two columns are oppositely
/// ordered, and greatest where they are similarly ordered. Where the two tasks of a step are of one
/// microbatch, only the choice of microbatches is left.
///
/// Shapes      into[microbatches], scratch; returns `steps` of them.
[[nodiscard]] inline std::span<time_units> extreme_steps_into(std::span<time_units> into,
                                                              synchronised_steps::side const& side,
                                                              std::size_t steps, step_tasks which,
                                                              time_columns const& columns)
{
  std::size_t const all = columns.microbatches();
  bool const longest =
      which == step_tasks::longest_opposite || which == step_tasks::longest_similar;
  bool const opposite =
      which == step_tasks::longest_opposite || which == step_tasks::shortest_opposite;
  if (side.tasks == 2 && side.one_microbatch) {
    for (std::size_t at = 0; at < all; ++at) {
      into[at] = columns[side.columns[0]][at] + columns[side.columns[1]][at];
    }
    std::sort(into.begin(), into.end());
    return into.subspan(longest ? all - steps : 0, steps);
  }
  std::span<time_units> const times = into.first(steps);
  std::size_t const shortest = (longest ? steps : all) - 1;  // its rank among the longest
  for (std::size_t step = 0; step < steps; ++step) {
    times[step] = columns.longest(side.columns[0], shortest - step);
    if (side.tasks == 2) {
      times[step] += columns.longest(side.columns[1],
                                     opposite ? shortest + 1 - steps + step : shortest - step);
    }
  }
  if (opposite) { std::sort(times.begin(), times.end()); }
  return times;
}

/// The greatest value, over all t >= 0, of the sum of max(0, t - a) less that of max(0, t - b).
///
/// Expects     both are in increasing order and equally many, and none is negative.
[[nodiscard]] inline time_units most_shortfall(std::span<time_units const> a,
                                               std::span<time_units const> b)
{
  // It is linear between times, and its slope falls at those of b only.
  uint128 most = 0;
  uint128 sum_a = 0;
  uint128 sum_b = 0;
  std::size_t below = 0;
  for (std::size_t at = 0; at < b.size(); ++at) {
    auto const level = static_cast<uint128>(b[at]);
    while (below < a.size() && a[below] < b[at]) { sum_a += static_cast<uint128>(a[below++]); }
    uint128 const gained = below * level - sum_a;
    uint128 const lost = at * level - sum_b;
    if (gained > lost) { most = std::max(most, gained - lost); }
    sum_b += static_cast<uint128>(b[at]);
  }
  return static_cast<time_units>(most);
}

/// The least time that one of two synchronised ranks waits for the other, over all steps.
///
/// For any t, max(own, other) - own is at least max(0, t - own) - max(0, t - other), and at least
/// max(0, other - t) - max(0, own - t). Both are a convex function of one rank's time less one of
/// the other's, so each rank has its own extreme, and both bounds hold.
///
/// Expects     at least one step.
/// Ensures     (1) under no order is the sum of max(0, other - own) less
/// Complexity  O(microbatches x log(microbatches)).
/// Source      the extremes: G. H. Hardy, J. E. Littlewood, G. Polya, "Inequalities", Cambridge
///             1934, theorems 368 and 108.
[[nodiscard]] inline time_units waiting_bound(synchronised_steps::side const& own,
                                              synchronised_steps::side const& other,
                                              std::size_t steps, time_columns const& columns,
                                              workspace& memory)
{
  BALLAST_EXPECTS(steps >= 1 && steps <= columns.microbatches());
  auto scratch = memory.open();
  auto const extreme = [&](synchronised_steps::side const& side, step_tasks which) {
    return extreme_steps_into(scratch.take<time_units>(columns.microbatches()), side, steps, which,
                              columns);
  };
  time_units const below = most_shortfall(extreme(own, step_tasks::longest_opposite),
                                          extreme(other, step_tasks::shortest_similar));
  // The second inequality is the first one for the differences of the times from the longest.
  std::span<time_units> const others = extreme(other, step_tasks::shortest_opposite);
  std::span<time_units> const owns = extreme(own, step_tasks::longest_similar);
  time_units const top = std::max(others.back(), owns.back());
  for (std::span<time_units> const times : {others, owns}) {
    std::reverse(times.begin(), times.end());
    for (time_units& time : times) { time = top - time; }
  }
  return std::max(below, most_shortfall(others, owns));
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_WAITING_BOUND_HPP
