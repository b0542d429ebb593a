// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_PIPELINE_BARS_HPP
#define BALLAST_REPORT_PIPELINE_BARS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_timeline.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/report/pipeline_bar.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::report {

/// Returns what every pipeline rank does in a simulated step.
///
/// Shapes      order[microbatches]: the microbatch at each position.
/// Units       time_per_unit is how long one unit of the timeline is; the bars are in its unit.
/// Expects     timeline is what simulate() returns for the schedule and the order.
/// Ensures     (1) one bar per task, rank by rank, each in the order in which it does them
/// Complexity  O(tasks).
[[nodiscard]] inline std::vector<pipeline_bar> pipeline_bars(
    compiled_schedule const& schedule, pipeline_timeline const& timeline,
    std::vector<microbatch_id> const& order, double time_per_unit = 1)
{
  BALLAST_EXPECTS(timeline.start.size() == schedule.tasks().size(), "the timeline has ",
                  timeline.start.size(), " tasks, and the schedule ", schedule.tasks().size());
  BALLAST_EXPECTS(order.size() == schedule.microbatches(), "the order has ", order.size(),
                  " microbatches, and the schedule ", schedule.microbatches());
  std::vector<pipeline_bar> bars;
  bars.reserve(schedule.tasks().size());
  for (std::size_t index = 0; index < schedule.stages().ranks(); ++index) {
    auto const rank = to_id<pipeline_rank>(index);
    for (std::uint32_t const number : schedule.tasks_on(rank)) {
      pipeline_task const& task = schedule.tasks()[number];
      double const start = static_cast<double>(timeline.start[number]) * time_per_unit;
      double const end = static_cast<double>(timeline.end[number]) * time_per_unit;
      bars.push_back({rank, task.stage, order[task.position], task.pass, start, end - start});
    }
  }
  return bars;
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_PIPELINE_BARS_HPP
