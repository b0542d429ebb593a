// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_ROUND_TRIP_BOUND_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_ROUND_TRIP_BOUND_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/rank_tasks.hpp>
#include <ballast/pipeline/detail/bounds/task_bounds.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// The least w >= 1 such that a stage does the forward of position k + w after the backward of
/// position k, for all k; the number of microbatches where passes are not in the order of
/// positions.
///
/// In 1F1B it is how many microbatches the stage keeps in memory at most.
[[nodiscard]] inline std::size_t window_of(rank_tasks const& tasks, std::size_t forward,
                                           std::size_t backward, std::size_t microbatches)
{
  std::size_t window = 1;
  for (std::size_t at = 0; at + 1 < microbatches; ++at) {
    if (tasks.index_of(forward, at) > tasks.index_of(forward, at + 1) ||
        tasks.index_of(backward, at) > tasks.index_of(backward, at + 1)) {
      return microbatches;
    }
    while (at + window < microbatches &&
           tasks.index_of(forward, at + window) < tasks.index_of(backward, at)) {
      ++window;
    }
  }
  return window;
}

/// How long round trips from a stage take that can only be made one after the other.
///
/// With a window of w positions k, k + w, k + 2 w, ... are such a chain. The first c of the w
/// chains make m round trips, so the longest of them takes at least the m shortest round trips and
/// what c chains have before and after them, over c.
///
/// Ensures     (1) no order of the microbatches takes less
/// Complexity  O(microbatches x log(microbatches)).
[[nodiscard]] inline time_units round_trip_bound(time_columns const& columns,
                                                 microbatch_paths const& paths,
                                                 task_bounds const& bounds, rank_tasks const& tasks,
                                                 stage_id stage, workspace& memory)
{
  std::size_t const forward = tasks.kind_of({0, stage, pass::forward});
  std::size_t const backward = tasks.kind_of({0, stage, pass::backward});
  std::size_t const microbatches = columns.microbatches();
  std::size_t const window = window_of(tasks, forward, backward, microbatches);
  if (window >= microbatches) { return 0; }

  auto scratch = memory.open();
  std::span<time_units> const trips = scratch.take<time_units>(microbatches);
  for (std::size_t at = 0; at < microbatches; ++at) {
    trips[at] = columns[tasks.columns()[forward]][at] + paths.between(stage)[at] +
                columns[tasks.columns()[backward]][at];
  }
  std::sort(trips.begin(), trips.end());
  std::partial_sum(trips.begin(), trips.end(), trips.begin());

  time_units bound = 0;
  uint128 ends = 0;
  std::size_t made = 0;
  for (std::size_t chain = 0; chain < window; ++chain) {
    std::size_t const more = (microbatches - 1 - chain) / window;
    std::size_t const first = tasks.index_of(forward, chain);
    std::size_t const last = tasks.index_of(backward, chain + more * window);
    ends += static_cast<uint128>(bounds.heads()[tasks.numbers()[first]] +
                                 bounds.tails()[tasks.numbers()[last]]);
    made += more + 1;
    uint128 const chains = chain + 1;
    auto const all = ends + static_cast<uint128>(trips[made - 1]);
    bound = std::max(bound, static_cast<time_units>((all + chains - 1) / chains));
  }
  return bound;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_ROUND_TRIP_BOUND_HPP
