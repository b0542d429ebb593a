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
  /// How long the weights passes take, as `rows`; empty where all backwards are whole. In `rows`
  /// the backward of a stage with a weights pass is the gradients of its inputs.
  std::vector<time_units> weights;

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

  /// How long a pass takes, in the given one of the rows; 0 where there are no such times.
  [[nodiscard]] time_units of(std::size_t row, pass direction) const
  {
    if (direction == pass::weights) { return weights.empty() ? 0 : weights[row]; }
    return direction == pass::forward ? rows[row].forward : rows[row].backward;
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
  return times.of(to_index(order[task.position]) * times.stages + to_index(task.stage), task.pass);
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

/// Fills in how long each microbatch's task in each column takes, 0 where the stage has no such pass,
/// and the microbatch's longest paths: to the task, and on from its end.
///
/// Shapes      each [columns x microbatches].
inline void find_paths(stage_graph const& stages, pipeline_times const& times,
                       std::span<time_units> durations, std::span<time_units> heads,
                       std::span<time_units> tails)
{
  std::size_t const microbatches = times.microbatches();
  std::size_t const count = times.stages;
  // Forwards from the lowest stage up, then backwards from the highest one down, and the weights
  // pass after each: so all that a column needs comes before it.
  auto const sorted = [count](std::size_t at) {
    if (at < count) { return stage_passes * at; }
    return stage_passes * (count - 1 - (at - count) / 2) + 1 + (at - count) % 2;
  };
  auto const reach = [=](std::span<time_units> paths, std::size_t to, std::size_t from,
                         time_units transfer) {
    for (std::size_t at = 0; at < microbatches; ++at) {
      std::size_t const before = from * microbatches + at;
      time_units& path = paths[to * microbatches + at];
      path = std::max(path, paths[before] + durations[before] + transfer);
    }
  };
  std::fill(heads.begin(), heads.end(), 0);
  std::fill(tails.begin(), tails.end(), 0);
  for (std::size_t next = 0; next < stage_passes * count; ++next) {
    std::size_t const column = sorted(next);
    std::size_t const stage = column / stage_passes;
    auto const direction = static_cast<pass>(column % stage_passes);
    bool const is_there = has_pass(stages[to_id<stage_id>(stage)], direction);
    for (std::size_t at = 0; at < microbatches; ++at) {
      durations[column * microbatches + at] =
          is_there ? times.of(at * count + stage, direction) : 0;
    }
    for_each_need(stages, column, [&](std::size_t other, time_units transfer) {
      reach(heads, column, other, transfer);
    });
  }
  for (std::size_t left = stage_passes * count; left-- > 0;) {
    for_each_need(stages, sorted(left), [&](std::size_t other, time_units transfer) {
      reach(tails, other, sorted(left), transfer);
    });
  }
}

/// check_times() of a schedule of so many microbatches.
[[nodiscard]] inline result<void> check_times_on(stage_graph const& graph,
                                                 pipeline_times const& times,
                                                 std::size_t microbatches)
{
  std::size_t const stages = graph.stages();
  if (times.stages != stages || times.rows.size() != microbatches * stages ||
      (!times.weights.empty() && times.weights.size() != times.rows.size())) {
    return fail(error_code::out_of_range, 0, "there are times for ",
                counted(times.microbatches(), "microbatch"), " on ", counted(times.stages, "stage"),
                ", and the schedule has ", microbatches, " on ", stages, "; make them agree");
  }
  // No path through the tasks is longer than all tasks and, for each microbatch, every link in both
  // directions.
  constexpr time_units most = time_units{1} << 62;
  auto const trips = 2 * static_cast<time_units>(microbatches);
  time_units total = 0;
  for (stage_link const& link : graph.links()) {
    if (trips > 0 && link.transfer > (most - total) / trips) {
      return fail(error_code::out_of_range, 0, "the transfers of ",
                  counted(microbatches, "microbatch"),
                  " come together above 2^62; use a coarser unit");
    }
    total += trips * link.transfer;
  }
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    auto const& [forward, backward] = times.rows[row];
    time_units const weights = times.of(row, pass::weights);
    auto const refuse = [&](std::string const& why) {
      return fail(error_code::out_of_range, row / stages, "microbatch ", row / stages, " takes ",
                  forward, " forward and ", backward, " backward",
                  weights != 0 ? concat(" and ", weights, " for weights") : std::string{},
                  " on stage ", row % stages, why);
    };
    if (std::min({forward, backward, weights}) < 0 ||
        std::max({forward, backward, weights}) > stage_graph::longest_time) {
      return refuse(", and a time is from 0 to 2^53; correct it or use a coarser unit");
    }
    if (forward + backward + weights > most - total) {
      return refuse(
          ", which brings all times and transfers together above 2^62; use a coarser unit");
    }
    total += forward + backward + weights;
  }
  return {};
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
  return detail::check_times_on(schedule.stages(), times, schedule.microbatches());
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
    time_units const start = start_of(task, schedule, end);
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

/// What a microbatch keeps on a stage: so many bytes from the start of its forward to the end of its
/// backward, and from there to the end of its weights pass, where the stage has one.
struct held_bytes {
  std::uint64_t held = 0;
  std::uint64_t for_weights = 0;  ///< at most `held`
  friend bool operator==(held_bytes const&, held_bytes const&) = default;
};

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

namespace detail {

/// Calls `changed(task, kept, starts)` wherever a task of a rank changes what the rank keeps, in
/// the order of its tasks: `starts` where that is when the task starts, else when it ends.
template <class Changed>
void follow_memory(compiled_schedule const& schedule, pipeline_rank rank,
                   std::span<microbatch_id const> order, std::span<held_bytes const> bytes,
                   Changed const& changed)
{
  std::uint64_t kept = 0;
  for (std::uint32_t const task : schedule.tasks_on(rank)) {
    auto const& [position, stage, direction] = schedule.tasks()[task];
    pipeline_stage const& own = schedule.stages()[stage];
    if (own.part == model_part::transfer) { continue; }
    auto const& [held, for_weights] =
        bytes[to_index(order[position]) * schedule.stages().stages() + to_index(stage)];
    if (direction == pass::forward) {
      kept += held;
      changed(task, kept, true);
    }
    if (direction == pass::weights) {
      kept -= for_weights;
      changed(task, kept, false);
    } else if (direction == pass::backward || !own.backward) {
      kept -= own.weights ? held - for_weights : held;
      changed(task, kept, false);
    }
  }
}

/// Ends the program where there are bytes of other microbatches or stages than a schedule has.
inline void expect_bytes_of(compiled_schedule const& schedule, std::span<microbatch_id const> order,
                            std::size_t entries)
{
  BALLAST_EXPECTS(order.size() == schedule.microbatches(), "the order has ",
                  counted(order.size(), "microbatch"), ", and the schedule ",
                  schedule.microbatches());
  BALLAST_EXPECTS(entries == schedule.microbatches() * schedule.stages().stages(), "`bytes` has ",
                  counted(entries, "entry"), " for ",
                  counted(schedule.microbatches(), "microbatch"), " on ",
                  counted(schedule.stages().stages(), "stage"));
}

}  // namespace detail

/// How much memory the activations of a simulated schedule take, rank by rank.
///
/// The activations of a microbatch are on a stage from the start of its forward to the end of its
/// backward, and what its weights pass needs to the end of that. A stage without backward keeps
/// them for as long as the forward takes: its output is counted where it is an input, by the stages
/// that it feeds, and so is what a transfer sends. A stage that computes its forward again is one
/// that keeps less and whose backward takes longer; activations that are moved to another memory
/// are not counted here.
///
/// Shapes      order[microbatches]; bytes[microbatches x stages], microbatch by microbatch.
/// Expects     timeline is what simulate() finds for the schedule and the order; no `for_weights`
///             is above its `held`; the bytes of all tasks of a rank together fit 64 bits.
/// Ensures     (1) one per pipeline rank
///             (2) levels tell what is kept at every time; before the first it is nothing
///             (3) peak_bytes is the most that is kept at once when the rank does its tasks one
///             after the other. It depends on their order and not on times, and is the highest
///             level, unless tasks that take no time hide that one.
/// Complexity  O(tasks).
[[nodiscard]] inline std::vector<rank_memory> activation_memory(
    compiled_schedule const& schedule, pipeline_timeline const& timeline,
    std::span<microbatch_id const> order, std::span<held_bytes const> bytes)
{
  detail::expect_bytes_of(schedule, order, bytes.size());
  std::size_t const tasks = schedule.tasks().size();
  BALLAST_EXPECTS(timeline.start.size() == tasks, "the timeline has the starts of ",
                  detail::counted(timeline.start.size(), "task"), ", and the schedule ", tasks);
  BALLAST_EXPECTS(timeline.end.size() == tasks, "the timeline has the ends of ",
                  detail::counted(timeline.end.size(), "task"), ", and the schedule ", tasks);
  std::vector<rank_memory> memory(schedule.stages().ranks());
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    auto& [peak, levels] = memory[rank];
    detail::follow_memory(schedule, to_id<pipeline_rank>(rank), order, bytes,
                          [&](std::uint32_t task, std::uint64_t kept, bool starts) {
                            time_units const now =
                                starts ? timeline.start[task] : timeline.end[task];
                            peak = std::max(peak, kept);
                            if (!levels.empty() && levels.back().since == now) {
                              levels.pop_back();
                            }
                            if (kept != (levels.empty() ? 0 : levels.back().bytes)) {
                              levels.push_back({now, kept});
                            }
                          });
  }
  return memory;
}

/// What microbatches keep on the stages of a pipeline, and how much each rank may keep at once.
///
/// Shapes      held[microbatches x stages], microbatch by microbatch; most[ranks], or empty where
///             no rank has a limit.
struct pipeline_memory {
  std::vector<held_bytes> held;
  std::vector<std::uint64_t> most;
};

/// Whether the ranks of a schedule keep no more than they may, under an order.
///
/// Expects     what activation_memory() does; as many limits as ranks, or none.
/// Errors      infeasible: the message names the rank, its first task that brings it above its
///             limit, and the bytes; position is the rank.
/// Complexity  O(tasks).
[[nodiscard]] inline result<void> check_memory(compiled_schedule const& schedule,
                                               std::span<microbatch_id const> order,
                                               pipeline_memory const& memory)
{
  detail::expect_bytes_of(schedule, order, memory.held.size());
  if (memory.most.empty()) { return {}; }
  BALLAST_EXPECTS(memory.most.size() == schedule.stages().ranks(), "there are limits for ",
                  detail::counted(memory.most.size(), "rank"), " of ", schedule.stages().ranks());
  for (std::size_t rank = 0; rank < memory.most.size(); ++rank) {
    std::uint32_t above = detail::no_task;
    std::uint64_t bytes = 0;
    detail::follow_memory(schedule, to_id<pipeline_rank>(rank), order, detail::span_of(memory.held),
                          [&](std::uint32_t task, std::uint64_t kept, bool) {
                            if (kept <= memory.most[rank] || above != detail::no_task) { return; }
                            above = task;
                            bytes = kept;
                          });
    if (above == detail::no_task) { continue; }
    return fail(error_code::infeasible, rank, "pipeline rank ", rank, " keeps ", bytes,
                " bytes from ", detail::text_of(schedule.tasks()[above]), " on and may keep ",
                memory.most[rank], "; have it free some before, or allow it more");
  }
  return {};
}

}  // namespace ballast::inline v0
