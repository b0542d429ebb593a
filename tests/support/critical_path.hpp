// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast_test {

/// The tasks that make a simulated schedule as long as it is: shortening any other one leaves the
/// makespan as it was.
///
/// Expects     timeline is what simulate() finds for the schedule, with any times and order.
/// Ensures     (1) numbers of tasks, first to last: the first waits for nothing, every other waits
///             for the one before it and starts when that one's transfer is done
///             (2) durations and transfers along it add up to the makespan
///             (3) ties: of the tasks that end last, the lowest number; of those that a task waits
///             for equally long, the one before it on its rank, then the one on the lowest stage
///             (4) no task where the schedule has none
/// Complexity  O(waits of the tasks found).
/// Source      J. E. Kelley, "Critical-Path Planning and Scheduling: Mathematical Basis",
///             Operations Research 9(3):296-320, 1961.
[[nodiscard]] inline std::vector<std::uint32_t> critical_path(
    ballast::compiled_schedule const& schedule, ballast::pipeline_timeline const& timeline)
{
  std::vector<std::uint32_t> path;
  if (timeline.end.empty()) { return path; }
  auto task = static_cast<std::uint32_t>(
      std::max_element(timeline.end.begin(), timeline.end.end()) - timeline.end.begin());
  for (;;) {
    path.push_back(task);
    auto const waits = schedule.waits_for(task);
    if (waits.empty()) { break; }
    auto const last = std::find_if(waits.begin(), waits.end(), [&](ballast::task_wait const& wait) {
      return timeline.end[wait.task] + wait.transfer == timeline.start[task];
    });
    BALLAST_EXPECTS(last != waits.end(), "the timeline is not one of this schedule");
    task = last->task;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace ballast_test
