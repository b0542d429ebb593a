// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>

namespace ballast::inline v0 {

/// How long one microbatch takes on one stage.
struct stage_time {
  time_units forward = 0;
  time_units backward = 0;  ///< each 0 where the stage has no such pass
  friend bool operator==(stage_time const&, stage_time const&) = default;
};

/// How long every microbatch takes on every stage: what a schedule is simulated with.
///
/// Shapes      a row per microbatch, a column per stage.
/// Units       whole units of time, the same as of the links between the stages.
/// Expects     no time is negative or above stage_graph::longest_time; check_times() checks it.
struct pipeline_times {
  std::size_t stages = 0;
  std::vector<stage_time> rows;  ///< microbatches x stages, microbatch by microbatch

  pipeline_times() = default;
  pipeline_times(std::size_t microbatch_count, std::size_t stage_count)
      : stages(stage_count), rows(microbatch_count * stage_count)
  {
    BALLAST_EXPECTS(stage_count >= 1, "times were asked for on ",
                    detail::counted(stage_count, "stage"));
  }

  /// The times that `time_of(microbatch, stage)`, asked for each of both, returns.
  template <class TimeOf>
    requires std::is_invocable_r_v<stage_time, TimeOf const&, std::size_t, std::size_t>
  pipeline_times(std::size_t microbatch_count, std::size_t stage_count, TimeOf const& time_of)
      : pipeline_times(microbatch_count, stage_count)
  {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      rows[row] = time_of(row / stages, row % stages);
    }
  }

  [[nodiscard]] std::size_t microbatches() const noexcept
  {
    return stages == 0 ? 0 : rows.size() / stages;
  }

  [[nodiscard]] std::span<stage_time const> operator[](microbatch_id microbatch) const
  {
    BALLAST_EXPECTS(to_index(microbatch) < microbatches(), "microbatch ", microbatch,
                    " of times of ", detail::counted(microbatches(), "microbatch"));
    return detail::span_of(rows, to_index(microbatch) * stages, stages);
  }
  [[nodiscard]] std::span<stage_time> operator[](microbatch_id microbatch)
  {
    BALLAST_EXPECTS(to_index(microbatch) < microbatches(), "microbatch ", microbatch,
                    " of times of ", detail::counted(microbatches(), "microbatch"));
    return detail::mutable_span_of(rows, to_index(microbatch) * stages, stages);
  }

  friend bool operator==(pipeline_times const&, pipeline_times const&) = default;
};

/// When each task of a schedule runs, and how long each rank computes.
///
/// Shapes      start[tasks], end[tasks], numbered as tasks() of the schedule; busy[ranks].
struct pipeline_timeline {
  std::vector<time_units> start;
  std::vector<time_units> end;
  std::vector<time_units> busy;  ///< how long each rank computes
  time_units makespan = 0;       ///< the end of the last task

  /// 1 - busy / (ranks x makespan): the share of the paid time in which nothing is computed; 0
  /// where there is nothing to do.
  [[nodiscard]] double idle_share() const
  {
    if (makespan == 0) { return 0; }
    double share = 0;
    for (time_units const time : busy) {
      share += static_cast<double>(time) / static_cast<double>(makespan);
    }
    return 1 - share / static_cast<double>(busy.size());
  }

  /// The same of one rank.
  [[nodiscard]] double idle_share(pipeline_rank rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < busy.size(), "rank ", rank, " of a timeline of ",
                    detail::counted(busy.size(), "rank"));
    if (makespan == 0) { return 0; }
    return 1 - static_cast<double>(busy[to_index(rank)]) / static_cast<double>(makespan);
  }
};

namespace detail {

/// How long a task of a schedule takes for the microbatch that an order puts at its position.
[[nodiscard]] inline time_units duration_of(pipeline_task const& task, pipeline_times const& times,
                                            std::span<microbatch_id const> order)
{
  stage_time const& time =
      times.rows[to_index(order[task.position]) * times.stages + to_index(task.stage)];
  return task.pass == pass::forward ? time.forward : time.backward;
}

/// When all that a task waits for has ended.
[[nodiscard]] inline time_units start_of(std::size_t task, compiled_schedule const& schedule,
                                         std::span<time_units const> end)
{
  time_units start = 0;
  for (auto const& [other, transfer] : schedule.waits_for(task)) {
    start = std::max(start, end[other] + transfer);
  }
  return start;
}

/// Ends the program where an order is not one of as many microbatches as the schedule has.
inline void expect_order_of(compiled_schedule const& schedule, std::span<microbatch_id const> order)
{
  BALLAST_EXPECTS(order.size() == schedule.microbatches(), "an order of ",
                  counted(order.size(), "microbatch"), " was given for a schedule of ",
                  schedule.microbatches());
}

/// The same where times are of other stages.
inline void expect_stages_of(compiled_schedule const& schedule, pipeline_times const& times)
{
  BALLAST_EXPECTS(times.stages == schedule.stages().stages(), "times on ",
                  counted(times.stages, "stage"), " were given for a schedule of ",
                  schedule.stages().stages());
}

/// The same where times are of other stages or of other microbatches.
inline void expect_times_of(compiled_schedule const& schedule, pipeline_times const& times)
{
  expect_stages_of(schedule, times);
  BALLAST_EXPECTS(times.rows.size() == schedule.microbatches() * times.stages, "times of ",
                  counted(times.microbatches(), "microbatch"), " were given for a schedule of ",
                  schedule.microbatches());
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
  expect_order_of(schedule, order);
  expect_stages_of(schedule, times);
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

/// The activations that a rank keeps while a schedule runs.
struct rank_memory {
  /// So many bytes from some time on.
  struct level {
    time_units since = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(level const&, level const&) = default;
  };

  std::uint64_t peak_bytes = 0;
  std::vector<level> levels;  ///< by time; bytes change at each; the last is 0
  friend bool operator==(rank_memory const&, rank_memory const&) = default;
};

/// How much memory the activations of a simulated schedule take, rank by rank.
///
/// The activations of a microbatch are on a stage from the start of its forward to the end of its
/// backward. A stage without backward keeps them for as long as the forward takes: its output is
/// counted where it is an input, by the stages that it feeds, and so is what a transfer sends.
///
/// Shapes      order[microbatches]; bytes[microbatches x stages], microbatch by microbatch.
/// Expects     timeline is what simulate() finds for the schedule and the order; the bytes of all
///             tasks of a rank together fit 64 bits.
/// Ensures     (1) one per pipeline rank
///             (2) levels tell what is kept at every time; before the first it is nothing
///             (3) peak_bytes is the most that is kept at once when the rank does its tasks one
///             after the other. It depends on their order and not on times, and is the highest
///             level, unless tasks that take no time hide that one.
/// Complexity  O(tasks).
[[nodiscard]] inline std::vector<rank_memory> activation_memory(
    compiled_schedule const& schedule, pipeline_timeline const& timeline,
    std::span<microbatch_id const> order, std::span<std::uint64_t const> bytes)
{
  stage_graph const& stages = schedule.stages();
  BALLAST_EXPECTS(timeline.start.size() == schedule.tasks().size(),
                  "the timeline has the starts of ", detail::counted(timeline.start.size(), "task"),
                  ", and the schedule ", schedule.tasks().size());
  BALLAST_EXPECTS(timeline.end.size() == schedule.tasks().size(), "the timeline has the ends of ",
                  detail::counted(timeline.end.size(), "task"), ", and the schedule ",
                  schedule.tasks().size());
  BALLAST_EXPECTS(order.size() == schedule.microbatches(), "the order has ",
                  detail::counted(order.size(), "microbatch"), ", and the schedule ",
                  schedule.microbatches());
  BALLAST_EXPECTS(bytes.size() == schedule.microbatches() * stages.stages(), "`bytes` has ",
                  detail::counted(bytes.size(), "entry"), " for ",
                  detail::counted(schedule.microbatches(), "microbatch"), " on ",
                  detail::counted(stages.stages(), "stage"));
  std::vector<rank_memory> memory(stages.ranks());
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    auto& [peak, levels] = memory[rank];
    std::uint64_t kept = 0;
    auto const record = [&levels, &kept](time_units now) {
      if (!levels.empty() && levels.back().since == now) { levels.pop_back(); }
      if (kept != (levels.empty() ? 0 : levels.back().bytes)) { levels.push_back({now, kept}); }
    };
    for (std::uint32_t const task : schedule.tasks_on(to_id<pipeline_rank>(rank))) {
      auto const& [position, stage, direction] = schedule.tasks()[task];
      if (stages[stage].part == model_part::transfer) { continue; }
      std::uint64_t const size =
          bytes[to_index(order[position]) * stages.stages() + to_index(stage)];
      if (direction == pass::forward) {
        kept += size;
        peak = std::max(peak, kept);
        record(timeline.start[task]);
      }
      if (direction == pass::backward || !stages[stage].backward) {
        kept -= size;
        record(timeline.end[task]);
      }
    }
  }
  return memory;
}

}  // namespace ballast::inline v0
