// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_MICROBATCH_KINDS_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_MICROBATCH_KINDS_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// Which microbatches are equal: those that take the same times on all stages are of one kind, and
/// orders that differ in equal microbatches only take equally long.
///
/// Ensures     (1) of[a] == of[b] if and only if a and b take the same times; what a stage without
///                 backward has as backward does not count
///             (2) kinds are numbered from 0 to count - 1
///             (3) before[m] is the last microbatch of m's kind with a lower number, or `none`
/// Complexity  O(l log l x stages).
struct microbatch_kinds {
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  std::span<std::size_t> of;
  std::span<std::size_t> before;
  std::size_t count = 0;

  microbatch_kinds(order_problem const& problem, workspace::frame& scratch)
      : of(scratch.take<std::size_t>(problem.schedule.microbatches())),
        before(scratch.take<std::size_t>(of.size()))
  {
    stage_graph const& stages = problem.schedule.stages();
    auto const compared = [&](microbatch_id a, microbatch_id b) {  // below, at or above 0
      std::span<stage_time const> const of_a = problem.times[a];
      std::span<stage_time const> const of_b = problem.times[b];
      for (std::size_t stage = 0; stage < of_a.size(); ++stage) {
        if (of_a[stage].forward != of_b[stage].forward) {
          return of_a[stage].forward < of_b[stage].forward ? -1 : 1;
        }
        if (stages[to_id<stage_id>(stage)].backward &&
            of_a[stage].backward != of_b[stage].backward) {
          return of_a[stage].backward < of_b[stage].backward ? -1 : 1;
        }
      }
      return 0;
    };
    auto const sorted = scratch.take<microbatch_id>(of.size());
    for (std::size_t index = 0; index < of.size(); ++index) {
      sorted[index] = to_id<microbatch_id>(index);
    }
    std::sort(sorted.begin(), sorted.end(), [&compared](microbatch_id a, microbatch_id b) {
      return precedes(compared(a, b), 0, a, b);
    });
    for (std::size_t at = 0; at < of.size(); ++at) {
      bool const equal = at > 0 && compared(sorted[at - 1], sorted[at]) == 0;
      count += equal ? 0 : 1;
      of[to_index(sorted[at])] = count - 1;
      before[to_index(sorted[at])] = equal ? to_index(sorted[at - 1]) : none;
    }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_MICROBATCH_KINDS_HPP
