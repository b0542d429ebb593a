// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_TASK_BOUNDS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_TASK_BOUNDS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// How early a task can start and how soon after it everything can be over, whatever the order.
///
/// Both are longest paths in which a task takes as long as the shortest of its column, except that
/// tasks which a rank does one after the other take together at least as long as the shortest ones
/// of their columns. A rank counts such tasks from two of them on: its first task and its first
/// backward or, from the end, its last task and its last forward.
///
/// Shapes      heads[tasks], tails[tasks], numbered as tasks() of the schedule.
/// Expects     at least one microbatch.
/// Ensures     (1) under no order a task starts before its head
///             (2) under no order the last task ends sooner than its tail after the end of a task
/// Complexity  O(tasks + waits).
class task_bounds {
 public:
  task_bounds(compiled_schedule const& schedule, time_columns const& columns,
              microbatch_paths const& paths, workspace::frame& scratch)
      : heads_(scratch.take<time_units>(schedule.tasks().size())),
        tails_(scratch.take<time_units>(schedule.tasks().size()))
  {
    std::span<pipeline_task const> const tasks = schedule.tasks();
    stage_graph const& stages = schedule.stages();
    std::span<run> const runs = scratch.take<run>(2 * stages.ranks());
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(4 * stages.stages());
    // By column: the shortest of all microbatches' paths.
    std::span<time_units> const least_before = scratch.take<time_units>(2 * stages.stages());
    std::span<time_units> const least_after = scratch.take<time_units>(2 * stages.stages());
    for (std::size_t column = 0; column < least_before.size(); ++column) {
      auto const before = paths.before(column);
      auto const after = paths.after(column);
      least_before[column] = *std::min_element(before.begin(), before.end());
      least_after[column] = *std::min_element(after.begin(), after.end());
    }
    // Raises a bound to what the runs of the rank give, and adds the task to them.
    auto const advance = [&](std::size_t task, time_units& bound, pass turn) {
      std::size_t const rank = to_index(stages[tasks[task].stage].rank);
      std::size_t const column = time_columns::column_of(tasks[task]);
      run& whole = runs[2 * rank];
      run& turned = runs[2 * rank + 1];
      if (whole.begun) { bound = std::max(bound, whole.least); }
      if (turned.begun) { bound = std::max(bound, turned.least); }
      whole.begin(bound);
      if (tasks[task].pass == turn) { turned.begin(bound); }
      whole.add(columns, column, counts[2 * column]);
      if (turned.begun) { turned.add(columns, column, counts[2 * column + 1]); }
    };

    std::fill(runs.begin(), runs.end(), run{});
    std::fill(counts.begin(), counts.end(), 0U);
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      time_units head = least_before[time_columns::column_of(tasks[task])];
      for (auto const& [other, transfer] : schedule.waits_for(task)) {
        head =
            std::max(head, heads_[other] + columns.least(time_columns::column_of(tasks[other]), 1) +
                               transfer);
      }
      advance(task, head, pass::backward);
      heads_[task] = head;
    }

    std::fill(runs.begin(), runs.end(), run{});
    std::fill(counts.begin(), counts.end(), 0U);
    std::fill(tails_.begin(), tails_.end(), 0);
    for (std::size_t task = tasks.size(); task-- > 0;) {
      std::size_t const column = time_columns::column_of(tasks[task]);
      time_units tail = std::max(tails_[task], least_after[column]);
      advance(task, tail, pass::forward);
      tails_[task] = tail;
      for (auto const& [other, transfer] : schedule.waits_for(task)) {
        tails_[other] = std::max(tails_[other], tail + columns.least(column, 1) + transfer);
      }
    }
  }

  /// The longest path through any task.
  [[nodiscard]] time_units longest(compiled_schedule const& schedule,
                                   time_columns const& columns) const
  {
    time_units longest = 0;
    for (std::size_t task = 0; task < heads_.size(); ++task) {
      std::size_t const column = time_columns::column_of(schedule.tasks()[task]);
      longest = std::max(longest, heads_[task] + columns.least(column, 1) + tails_[task]);
    }
    return longest;
  }

  [[nodiscard]] std::span<time_units const> heads() const noexcept { return heads_; }
  [[nodiscard]] std::span<time_units const> tails() const noexcept { return tails_; }

 private:
  /// Tasks that a rank does one after the other, from one on.
  struct run {
    bool begun = false;
    time_units least = 0;  ///< a lower bound of where the next task of the rank is

    void begin(time_units at) noexcept
    {
      if (!begun) { *this = {true, at}; }
    }
    void add(time_columns const& columns, std::size_t column, std::uint32_t& count)
    {
      least -= columns.least(column, count);
      least += columns.least(column, ++count);
    }
  };

  std::span<time_units> heads_;
  std::span<time_units> tails_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_TASK_BOUNDS_HPP
