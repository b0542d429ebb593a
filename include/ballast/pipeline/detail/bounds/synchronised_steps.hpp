// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_SYNCHRONISED_STEPS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_SYNCHRONISED_STEPS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The steps of two ranks that synchronise: neither begins a step before both have ended the step
/// before.
///
/// Two ranks synchronise before task i of the one and task j of the other where each of the two
/// waits for the task before i and for the one before j. A path can change ranks at every such
/// point, so the time from the first to the last is at least the sum, over the steps in between, of
/// the longer of what the two ranks do. Neighbours in 1F1B synchronise once per microbatch, since a
/// later forward waits for a backward.
///
/// It counts only steps of the shape that the step in the middle has: the same columns, at most two
/// tasks per rank.
///
/// Complexity  O(tasks of the first rank x their waits).
class synchronised_steps {
 public:
  /// What a rank does in a step: at least one task.
  struct side {
    std::size_t tasks = 0;
    std::array<std::size_t, 2> columns{};
    bool one_microbatch = false;  ///< both tasks are of the same
    friend bool operator==(side const&, side const&) = default;
  };

  /// Expects     the ranks differ; index[tasks]: of each task in the list of its rank.
  synchronised_steps(compiled_schedule const& schedule, pipeline_rank first, pipeline_rank second,
                     std::span<std::uint32_t const> index, workspace& memory)
  {
    std::span<std::uint32_t const> const one = schedule.tasks_on(first);
    std::span<std::uint32_t const> const two = schedule.tasks_on(second);
    auto const waits_for = [&](std::uint32_t task, std::uint32_t other) {
      auto const waits = schedule.waits_for(task);
      return std::any_of(waits.begin(), waits.end(),
                         [&](auto const& wait) { return wait.task == other; });
    };
    auto scratch = memory.open();
    std::span<sync_point> const found = scratch.take<sync_point>(one.size());
    std::size_t points = 0;
    for (std::uint32_t at = 1; at < one.size(); ++at) {
      for (auto const& wait : schedule.waits_for(one[at])) {
        if (schedule.stages()[schedule.tasks()[wait.task].stage].rank != second) { continue; }
        std::uint32_t const next = index[wait.task] + 1;
        if (next < two.size() && waits_for(two[next], one[at - 1])) {
          found[points++] = {at, next};
          break;
        }
      }
    }
    if (points < 2) { return; }
    auto const shape = [&](std::size_t step, bool of_first) {
      return of_first ? side_of(schedule, one, found[step].first, found[step + 1].first)
                      : side_of(schedule, two, found[step].second, found[step + 1].second);
    };
    std::size_t const middle = (points - 1) / 2;
    sides_ = {shape(middle, true), shape(middle, false)};
    for (std::size_t step = 0; step + 1 < points; ++step) {
      if (shape(step, true) == sides_[0] && shape(step, false) == sides_[1]) { ++count_; }
    }
    if (sides_[0].tasks == 0 || sides_[1].tasks == 0) { count_ = 0; }
  }

  /// How many steps have the shape.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// What the first and the second rank do in each.
  [[nodiscard]] std::array<side, 2> const& sides() const noexcept { return sides_; }

 private:
  struct sync_point {
    std::uint32_t first;
    std::uint32_t second;
  };

  /// No tasks, where there are none or more than two.
  [[nodiscard]] static side side_of(compiled_schedule const& schedule,
                                    std::span<std::uint32_t const> list, std::size_t begin,
                                    std::size_t end)
  {
    side of;
    if (begin >= end || end - begin > of.columns.size()) { return of; }
    for (std::size_t at = begin; at < end; ++at) {
      of.columns[of.tasks++] = time_columns::column_of(schedule.tasks()[list[at]]);
    }
    of.one_microbatch =
        schedule.tasks()[list[begin]].position == schedule.tasks()[list[end - 1]].position;
    return of;
  }

  std::size_t count_ = 0;
  std::array<side, 2> sides_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_SYNCHRONISED_STEPS_HPP
