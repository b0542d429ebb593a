// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_PIPELINE_TASKS_HPP
#define BALLAST_REPORT_PIPELINE_TASKS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_timeline.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/report/step_entry.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::report {

/// What a step_log writes of a step of a pipeline: every task as measured, beside the simulation.
///
///     auto const measured = measured_timeline(comm, schedule, runner.measured()).value();
///     auto const tasks = pipeline_tasks(schedule, order, measured, simulated, 1e9 / units);
///     or_throw(log.append_pipeline(step, tasks));                // on one rank
///
/// Shapes      order[microbatches of the schedule], or those that ran.
/// Units       measured: nanoseconds; simulated: units of which `ns_per_unit` nanoseconds are one.
/// Expects     both timelines are of this schedule; that of the simulation may be empty.
/// Ensures     (1) one entry for each task that ran, rank by rank, in the order in which each does
///                 them
/// Complexity  O(tasks).
[[nodiscard]] inline std::vector<task_entry> pipeline_tasks(compiled_schedule const& schedule,
                                                            std::span<microbatch_id const> order,
                                                            pipeline_timeline const& measured,
                                                            pipeline_timeline const& simulated = {},
                                                            double ns_per_unit = 1)
{
  std::size_t const count = schedule.tasks().size();
  BALLAST_EXPECTS(measured.start.size() == measured.end.size() && measured.end.size() == count,
                  "a timeline of ", detail::counted(measured.end.size(), "task"),
                  " was given for a schedule of ", count);
  BALLAST_EXPECTS(simulated.start.size() == simulated.end.size() &&
                      (simulated.end.empty() || simulated.end.size() == count),
                  "a simulated timeline of ", detail::counted(simulated.end.size(), "task"),
                  " was given for a schedule of ", count);
  auto const nanoseconds = [ns_per_unit](time_units units) {
    double const time = static_cast<double>(units) * ns_per_unit;
    BALLAST_EXPECTS(time >= 0 && time < 9.2e18, "a simulated time of ", units, " units of ",
                    ns_per_unit, " nanoseconds does not fit 63 bits");
    return static_cast<std::int64_t>(time);
  };
  std::vector<task_entry> all;
  all.reserve(count);
  for (std::size_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
    for (std::uint32_t const number : schedule.tasks_on(to_id<pipeline_rank>(rank))) {
      if (measured.end[number] == 0) { continue; }  // as backwards in an evaluation
      pipeline_task const& task = schedule.tasks()[number];
      BALLAST_EXPECTS(task.position < order.size(), "position ", task.position,
                      " ran, and the order has ", detail::counted(order.size(), "microbatch"));
      task_entry each{static_cast<std::uint32_t>(rank),
                      static_cast<std::uint32_t>(to_index(task.stage)),
                      static_cast<std::uint32_t>(to_index(order[task.position])),
                      task.pass == pass::backward,
                      measured.start[number],
                      measured.end[number]};
      if (!simulated.end.empty()) {
        each.simulated_start = nanoseconds(simulated.start[number]);
        each.simulated_end = nanoseconds(simulated.end[number]);
      }
      all.push_back(each);
    }
  }
  return all;
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_PIPELINE_TASKS_HPP
