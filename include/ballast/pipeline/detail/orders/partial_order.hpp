// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_PARTIAL_ORDER_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_PARTIAL_ORDER_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

/// What policies share that build an order from its first position to its last.
namespace ballast::inline v0::detail {

/// What a microbatch takes on all stages, forward and backward. O(stages).
[[nodiscard]] inline time_units total_time(order_problem const& problem, microbatch_id microbatch)
{
  time_units total = 0;
  std::size_t stage = 0;
  for (auto const& [forward, backward] : problem.times[microbatch]) {
    pipeline_stage const& own = problem.schedule.stages()[to_id<stage_id>(stage++)];
    total += (own.has_forward() ? forward : 0) + (own.backward ? backward : 0);
  }
  return total;
}

/// total_time() of every microbatch, by number, in memory of `scratch`. O(microbatches x stages).
[[nodiscard]] inline std::span<time_units const> total_times(order_problem const& problem,
                                                             workspace::frame& scratch)
{
  std::span<time_units> const total = scratch.take<time_units>(problem.schedule.microbatches());
  for (std::size_t at = 0; at < total.size(); ++at) {
    total[at] = total_time(problem, to_id<microbatch_id>(at));
  }
  return total;
}

/// An order of which the first positions are known, simulated as far as the caller asks.
///
/// Microbatches without a position take no time. When one more gets a position, the ends of tasks
/// that depend on earlier positions only stay as they are, so that building an order costs about
/// one simulation in all.
///
/// Shapes      ends[tasks of the schedule], of which simulate() fills one part after the other.
/// Expects     the ends of all tasks below `first` are those of an order with the same first
///             positions.
struct partial_order {
  order_problem const& problem;
  std::span<microbatch_id const> placed;  ///< at positions 0 to placed.size() - 1
  std::span<time_units> ends;

  [[nodiscard]] time_units duration(std::size_t task) const
  {
    pipeline_task const& of = problem.schedule.tasks()[task];
    return of.position < placed.size() ? duration_of(of, problem.times, placed) : 0;
  }

  /// When all that a task waits for has ended.
  [[nodiscard]] time_units start(std::size_t task) const
  {
    time_units start = 0;
    for (auto const& [other, transfer] : problem.schedule.waits_for(task)) {
      start = std::max(start, ends[other] + transfer);
    }
    return start;
  }

  /// Simulates tasks first to last - 1.
  void simulate(std::size_t first, std::size_t last) const
  {
    for (std::size_t task = first; task < last; ++task) {
      ends[task] = start(task) + duration(task);
    }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_PARTIAL_ORDER_HPP
