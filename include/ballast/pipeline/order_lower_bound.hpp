// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_ORDER_LOWER_BOUND_HPP
#define BALLAST_PIPELINE_ORDER_LOWER_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/bounds/crossing_bound.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/rank_bound.hpp>
#include <ballast/pipeline/detail/bounds/rank_ends.hpp>
#include <ballast/pipeline/detail/bounds/rank_tasks.hpp>
#include <ballast/pipeline/detail/bounds/synchronised_steps.hpp>
#include <ballast/pipeline/detail/bounds/task_bounds.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/detail/bounds/waiting_bound.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0 {

namespace detail {

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

}  // namespace detail

/// A time that no order of the microbatches gets below: what every order is compared with.
///
/// The largest of
///   (a) the longest path of one microbatch through its stages, forward and backward;
///   (b) how early a task can start and how soon after it everything can be over, whichever
///       microbatches come before and after;
///   (c) for every rank, paths along its list of tasks that may leave it after the forward of a
///       microbatch, follow that microbatch through the later stages, and return for its backward;
///   (d) for every stage, round trips that can only be made one after the other, since a later
///       forward waits for a backward: the largest bound where transfers are long;
///   (e) for two ranks that wait for each other after every step, as neighbours in 1F1B do, the
///       longer of what the two do in each step;
///   (f) for two or three stages under 1F1B or GPipe, paths that change ranks with one long
///       microbatch, and count every other one on the rank on which it takes least.
/// The order decides how long a path through the tasks is; each bound is the least that any order
/// can give to one path, or to the longest of several.
///
/// Expects     check_times() finds no fault.
/// Ensures     (1) no order has a smaller makespan
///             (2) with a workspace that has seen a step as large, nothing is allocated
/// Complexity  O(tasks x (waits + stages of a rank) + stages x microbatches x log(microbatches))
///             for (a) (b) (d) (e); (c) and (f) as rank_bound and crossing_bound say. About
///             8 x tasks x (8 + stages of a rank) bytes of scratch.
/// Source      (a) (b) and the work of a rank: folklore, as in flow shops, e.g. B. J. Lageweg,
///             J. K. Lenstra, A. H. G. Rinnooy Kan, "A General Bounding Scheme for the Permutation
///             Flow-Shop Problem", Operations Research 26(1):53-67, 1978. (c) to (f) use what is
///             particular to pipelines: docs/pipeline_bounds.md has the proofs.
[[nodiscard]] inline time_units order_lower_bound(compiled_schedule const& schedule,
                                                  pipeline_times const& times, workspace& memory)
{
  BALLAST_EXPECTS(times.stages == schedule.stages().stages(), "times on ",
                  detail::counted(times.stages, "stage"), " were given for a schedule of ",
                  schedule.stages().stages());
  BALLAST_EXPECTS(times.rows.size() == schedule.microbatches() * times.stages, "times of ",
                  detail::counted(times.microbatches(), "microbatch"),
                  " were given for a schedule of ", schedule.microbatches());
  if (schedule.microbatches() == 0) { return 0; }
  stage_graph const& stages = schedule.stages();
  auto scratch = memory.open();
  detail::time_columns const columns(times, stages, scratch);
  detail::microbatch_paths const paths(stages, columns, scratch);
  detail::task_bounds const bounds(schedule, columns, paths, scratch);

  time_units bound = std::max(paths.longest(columns), bounds.longest(schedule, columns));
  std::span<time_units> const whole = scratch.take<time_units>(stages.ranks());
  std::span<std::uint32_t> const index = scratch.take<std::uint32_t>(schedule.tasks().size());
  for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
    auto const id = to_id<pipeline_rank>(rank);
    auto of_rank = memory.open();
    detail::rank_tasks const tasks(schedule, id, of_rank);
    detail::rank_ends const ends(tasks, columns, paths, bounds, of_rank);
    detail::rank_bound along(columns, paths, tasks, ends, of_rank);
    bound = along.bound(bound);
    whole[rank] = along.whole();
    for (stage_id const stage : stages.stages_on(id)) {
      if (!stages[stage].backward || !stages[stage].has_forward()) { continue; }
      bound =
          std::max(bound, detail::round_trip_bound(columns, paths, bounds, tasks, stage, memory));
    }
    for (std::uint32_t at = 0; at < tasks.size(); ++at) { index[tasks.numbers()[at]] = at; }
  }
  bound = detail::crossing_bound(schedule, columns, paths, bounds, scratch).bound(bound, memory);
  for (stage_link const& link : stages.links()) {
    pipeline_rank const first = stages[link.from].rank;
    pipeline_rank const second = stages[link.to].rank;
    if (first == second) { continue; }
    detail::synchronised_steps const steps(schedule, first, second, index, memory);
    if (steps.count() == 0) { continue; }
    auto const& [one, two] = steps.sides();
    bound = std::max(
        {bound,
         whole[to_index(first)] + detail::waiting_bound(one, two, steps.count(), columns, memory),
         whole[to_index(second)] +
             detail::waiting_bound(two, one, steps.count(), columns, memory)});
  }
  return bound;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_ORDER_LOWER_BOUND_HPP
