// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_SIMULATE_HPP
#define BALLAST_PIPELINE_SIMULATE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_timeline.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// How long a task of a schedule takes for the microbatch that an order puts at its position.
[[nodiscard]] inline time_units duration_of(pipeline_task const& task, pipeline_times const& times,
                                            std::span<microbatch_id const> order)
{
  stage_time const& time =
      times.rows[to_index(order[task.position]) * times.stages + to_index(task.stage)];
  return task.pass == pass::forward ? time.forward : time.backward;
}

}  // namespace detail

/// Whether these are times that can be simulated: as many rows and columns as the schedule has
/// microbatches and stages, no time negative or too long, all of them together within 2^62.
///
/// Errors      out_of_range: microbatch `position` has such a time, or brings all above 2^62;
///             position 0 also where the numbers differ or the transfers alone are above it.
/// Complexity  O(microbatches x stages + links).
[[nodiscard]] inline result<void> check_times(pipeline_times const& times,
                                              compiled_schedule const& schedule)
{
  std::size_t const stages = schedule.stages().stages();
  if (times.stages != stages || times.rows.size() != schedule.microbatches() * stages) {
    return fail(error_code::out_of_range, 0, "there are times for ",
                detail::counted(times.microbatches(), "microbatch"), " on ",
                detail::counted(times.stages, "stage"), ", and the schedule has ",
                schedule.microbatches(), " on ", stages, "; make them agree");
  }
  // No path through the tasks is longer than all tasks and, for each microbatch, every link in both
  // directions.
  constexpr time_units most = time_units{1} << 62;
  auto const trips = 2 * static_cast<time_units>(schedule.microbatches());
  time_units total = 0;
  for (stage_link const& link : schedule.stages().links()) {
    if (trips > 0 && link.transfer > (most - total) / trips) {
      return fail(error_code::out_of_range, 0, "the transfers of ",
                  detail::counted(schedule.microbatches(), "microbatch"),
                  " come together above 2^62; use a coarser unit");
    }
    total += trips * link.transfer;
  }
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    auto const& [forward, backward] = times.rows[row];
    auto const refuse = [&](std::string const& why) {
      return fail(error_code::out_of_range, row / stages, "microbatch ", row / stages, " takes ",
                  forward, " forward and ", backward, " backward on stage ", row % stages, why);
    };
    if (std::min(forward, backward) < 0 ||
        std::max(forward, backward) > stage_graph::longest_time) {
      return refuse(", and a time is from 0 to 2^53; correct it or use a coarser unit");
    }
    if (forward + backward > most - total) {
      return refuse(
          ", which brings all times and transfers together above 2^62; use a coarser unit");
    }
    total += forward + backward;
  }
  return {};
}

namespace detail {

/// Fills end[tasks] and calls `found(task, start, duration)` for every task, in the order of
/// tasks(). Returns the makespan.
template <class Found>
time_units simulate_tasks_into(std::span<time_units> end, compiled_schedule const& schedule,
                               pipeline_times const& times, std::span<microbatch_id const> order,
                               Found const& found)
{
  BALLAST_EXPECTS(order.size() == schedule.microbatches(), "an order of ",
                  counted(order.size(), "microbatch"), " was given for a schedule of ",
                  schedule.microbatches());
  BALLAST_EXPECTS(times.stages == schedule.stages().stages(), "times on ",
                  counted(times.stages, "stage"), " were given for a schedule of ",
                  schedule.stages().stages());
  BALLAST_AUDIT(
      std::all_of(
          order.begin(), order.end(),
          [&](microbatch_id microbatch) { return to_index(microbatch) < times.microbatches(); }),
      "the order has microbatches that the times of ", times.microbatches(), " do not have");
  std::span<pipeline_task const> const tasks = schedule.tasks();
  time_units makespan = 0;
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    time_units start = 0;
    for (auto const& [other, transfer] : schedule.waits_for(task)) {
      start = std::max(start, end[other] + transfer);
    }
    time_units const duration = duration_of(tasks[task], times, order);
    end[task] = start + duration;
    makespan = std::max(makespan, end[task]);
    found(task, start, duration);
  }
  return makespan;
}

}  // namespace detail

/// Simulates a schedule exactly: every task starts as soon as all that it waits for is done.
///
/// Shapes      order[microbatches]: the microbatch at each position.
/// In, out     timeline is overwritten, and keeps its memory for the next step.
/// Expects     check_times() finds no fault; order is a permutation, or any other list of
///             microbatches whose times add up to at most 2^62.
/// Ensures     (1) no task can start earlier without breaking a wait, so the makespan is the length
///             of the longest path
///             (2) with a timeline that has seen as many tasks, nothing is allocated
/// Complexity  O(tasks + waits).
/// Source      F. Baccelli, G. Cohen, G. J. Olsder, J.-P. Quadrat, "Synchronization and Linearity:
///             An Algebra for Discrete Event Systems", Wiley, 1992.
inline void simulate_into(pipeline_timeline& timeline, compiled_schedule const& schedule,
                          pipeline_times const& times, std::span<microbatch_id const> order)
{
  std::span<pipeline_task const> const tasks = schedule.tasks();
  timeline.start.resize(tasks.size());
  timeline.end.resize(tasks.size());
  timeline.busy.assign(schedule.stages().ranks(), 0);
  timeline.makespan = detail::simulate_tasks_into(
      detail::mutable_span_of(timeline.end), schedule, times, order,
      [&](std::size_t task, time_units start, time_units duration) {
        timeline.start[task] = start;
        timeline.busy[to_index(schedule.stages()[tasks[task].stage].rank)] += duration;
      });
}

/// The same, once: returns a new timeline.
[[nodiscard]] inline pipeline_timeline simulate(compiled_schedule const& schedule,
                                                pipeline_times const& times,
                                                std::span<microbatch_id const> order)
{
  pipeline_timeline timeline;
  simulate_into(timeline, schedule, times, order);
  return timeline;
}

/// How long an order takes, without the timeline: equal to simulate().makespan.
///
/// Complexity  O(tasks + waits), 8 bytes of scratch per task.
[[nodiscard]] inline time_units makespan_of(compiled_schedule const& schedule,
                                            pipeline_times const& times,
                                            std::span<microbatch_id const> order, workspace& memory)
{
  auto scratch = memory.open();
  return detail::simulate_tasks_into(scratch.take<time_units>(schedule.tasks().size()), schedule,
                                     times, order, [](std::size_t, time_units, time_units) {});
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_SIMULATE_HPP
