// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

namespace ballast::inline v0 {

/// When a rank computed one of its tasks, from the start of its step.
struct measured_task {
  std::uint32_t task = 0;  ///< its number in compiled_schedule::tasks()
  microbatch_id microbatch{};
  std::int64_t start_ns = 0;  ///< all its rows had come
  std::int64_t end_ns = 0;

  friend bool operator==(measured_task const&, measured_task const&) = default;
};

/// Tells every rank when all tasks of a step ran: what simulate() predicts, as it was measured.
///
///     auto const measured = measured_timeline(comm, schedule, runner.measured()).value();
///
/// A step starts on each rank when all have agreed to run it, so starts differ by what a collective
/// call takes. Of several replicas and tensor ranks, a task starts with the first and ends with the
/// last, and busy is what the busiest computes.
///
/// Units       nanoseconds.
/// Expects     every rank calls it, after a step of this schedule.
/// Ensures     tasks that no rank did, as the backwards of an evaluation, start and end at 0
/// Errors      mismatch, on every rank: schedules differ. Those of the communicator.
/// Complexity  one all_gather of 24 bytes for each task of the longest rank.
template <communicator C>
[[nodiscard]] result<pipeline_timeline> measured_timeline(C& comm,
                                                          compiled_schedule const& schedule,
                                                          std::span<measured_task const> own)
{
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
    most = std::max(most, schedule.tasks_on(to_id<pipeline_rank>(rank)).size());
  }
  BALLAST_EXPECTS(own.size() <= most, "a rank measured ", detail::counted(own.size(), "task"),
                  " of ", most);
  measured_task none;
  none.task = std::numeric_limits<std::uint32_t>::max();
  auto const all = detail::gather_alike<measured_task>(
      comm, "measured_timeline", {detail::word_of(schedule), "the schedule"},
      "give the schedule of the step", most,
      [&](std::size_t at) { return at < own.size() ? own[at] : none; });
  if (!all) { return tl::unexpected(all.error()); }

  pipeline_timeline timeline;
  std::size_t const tasks = schedule.tasks().size();
  timeline.start.assign(tasks, 0);
  timeline.end.assign(tasks, 0);
  timeline.busy.assign(schedule.stages().ranks(), 0);
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    time_units busy = 0;
    std::size_t computed_on = 0;
    for (std::size_t at = 0; at < most; ++at) {
      measured_task const each = (*all)(rank, at);
      if (each.task >= tasks) { continue; }
      bool const is_first = timeline.end[each.task] == 0;
      time_units& start = timeline.start[each.task];
      start = is_first ? each.start_ns : std::min(start, each.start_ns);
      timeline.end[each.task] = std::max(timeline.end[each.task], each.end_ns);
      timeline.makespan = std::max(timeline.makespan, each.end_ns);
      busy += each.end_ns - each.start_ns;
      computed_on = to_index(schedule.stages()[schedule.tasks()[each.task].stage].rank);
    }
    timeline.busy[computed_on] = std::max(timeline.busy[computed_on], busy);
  }
  return timeline;
}

/// How long each rank computed each microbatch, forward and backward: what
/// adaptive_correction::finish_step takes.
///
/// Shapes      returns [ranks x microbatches], ranks in the order of scheduled_step, microbatches
///             by their positions; 0 where a rank has computed none. Of tensor ranks the slowest
///             counts.
/// Units       nanoseconds.
/// Expects     every rank calls it, after a step of this schedule.
/// Errors      mismatch, on every rank: grids or schedules differ. Those of the communicator.
/// Complexity  one all_gather of 8 bytes for each microbatch.
template <communicator C>
[[nodiscard]] result<std::vector<time_units>> measured_microbatches(
    C& comm, process_grid const& grid, compiled_schedule const& schedule,
    std::span<measured_task const> own)
{
  BALLAST_EXPECTS(comm.size() == grid.ranks(), "a grid of ", detail::counted(grid.ranks(), "rank"),
                  " was given a communicator of ", comm.size());
  std::size_t const positions = schedule.microbatches();
  std::vector<time_units> computed(positions, 0);
  for (measured_task const& each : own) {
    computed[schedule.tasks()[each.task].position] += each.end_ns - each.start_ns;
  }
  auto const word = digest{}.add(detail::word_of(schedule)).add(detail::word_of(grid)).value();
  auto const all = detail::gather_alike<time_units>(
      comm, "measured_microbatches", {word, "the grid or the schedule"},
      "give the grid and the schedule of the step", positions,
      [&](std::size_t position) { return computed[position]; });
  if (!all) { return tl::unexpected(all.error()); }

  std::uint32_t groups = 0;
  for (std::uint32_t module = 0; module < grid.size(); ++module) {
    groups = std::gcd(groups, grid[module].data);
  }
  std::vector<std::size_t> first;  // of each module, among the stages of a group
  std::size_t stages = 0;
  for (std::uint32_t module = 0; module < grid.size(); ++module) {
    first.push_back(stages);
    stages += std::size_t{grid[module].data / groups} * grid[module].pipeline;
  }
  std::vector<time_units> measured(groups * stages * positions, 0);
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    auto const [module, data, pipeline, tensor] = grid.place(to_id<rank_id>(rank));
    std::uint32_t const of_group = grid[module].data / groups;
    std::size_t const stage =
        first[module] + std::size_t{data % of_group} * grid[module].pipeline + pipeline;
    for (std::size_t position = 0; position < positions; ++position) {
      time_units& slowest = measured[(data / of_group * stages + stage) * positions + position];
      slowest = std::max(slowest, (*all)(rank, position));
    }
  }
  return measured;
}

}  // namespace ballast::inline v0
