// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_TIME_COLUMNS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_TIME_COLUMNS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// The times of a step by column, and how long any n tasks of a column can take together. A column
/// is a pass on a stage; an order decides which microbatches the n tasks are of.
///
/// Shapes      times[columns x microbatches], column after column.
/// Ensures     (1) most(c, n) and least(c, n) are the sums of the n longest and n shortest times
///             (2) they do not depend on how the microbatches are numbered
/// Complexity  construction: O(columns x microbatches x log(microbatches)); all else O(1).
class time_columns {
 public:
  /// A pass that a stage does not have takes no time, whatever `times` says.
  time_columns(pipeline_times const& times, stage_graph const& stages, workspace::frame& scratch)
      : microbatches_(times.microbatches()),
        times_(scratch.take<time_units>(2 * times.rows.size())),
        most_(scratch.take<time_units>(2 * times.rows.size() + 2 * times.stages))
  {
    for (std::size_t stage = 0; stage < times.stages; ++stage) {
      auto const id = to_id<stage_id>(stage);
      for (std::size_t at = 0; at < microbatches_; ++at) {
        stage_time const& time = times.rows[at * times.stages + stage];
        times_[column_of(id, pass::forward) * microbatches_ + at] =
            stages[id].has_forward() ? time.forward : 0;
        times_[column_of(id, pass::backward) * microbatches_ + at] =
            stages[id].backward ? time.backward : 0;
      }
    }
    for (std::size_t column = 0; column < 2 * times.stages; ++column) {
      std::span<time_units> const sums =
          most_.subspan(column * (microbatches_ + 1), microbatches_ + 1);
      sums[0] = 0;
      std::copy_n((*this)[column].begin(), microbatches_, sums.begin() + 1);
      std::sort(sums.begin() + 1, sums.end(), std::greater{});
      std::partial_sum(sums.begin(), sums.end(), sums.begin());
    }
  }

  [[nodiscard]] static std::size_t column_of(stage_id stage, pass direction) noexcept
  {
    return 2 * to_index(stage) + (direction == pass::backward ? 1 : 0);
  }
  [[nodiscard]] static std::size_t column_of(pipeline_task const& task) noexcept
  {
    return column_of(task.stage, task.pass);
  }

  [[nodiscard]] std::size_t microbatches() const noexcept { return microbatches_; }

  /// The times of all microbatches in a column.
  [[nodiscard]] std::span<time_units const> operator[](std::size_t column) const
  {
    return times_.subspan(column * microbatches_, microbatches_);
  }

  [[nodiscard]] time_units most(std::size_t column, std::size_t tasks) const
  {
    BALLAST_EXPECTS(tasks <= microbatches_);
    return most_[column * (microbatches_ + 1) + tasks];
  }
  [[nodiscard]] time_units total(std::size_t column) const { return most(column, microbatches_); }
  [[nodiscard]] time_units least(std::size_t column, std::size_t tasks) const
  {
    return total(column) - most(column, microbatches_ - tasks);
  }

  /// The n-th longest time of a column, counted from 0.
  [[nodiscard]] time_units longest(std::size_t column, std::size_t n) const
  {
    return most(column, n + 1) - most(column, n);
  }

  /// The most that so many tasks of other microbatches take.
  [[nodiscard]] time_units most_without(std::size_t column, std::size_t tasks,
                                        std::size_t microbatch) const
  {
    if (tasks == 0) { return 0; }
    time_units const time = (*this)[column][microbatch];
    return time < longest(column, tasks - 1) ? most(column, tasks) : most(column, tasks + 1) - time;
  }

 private:
  std::size_t microbatches_;
  std::span<time_units> times_;
  std::span<time_units> most_;  // [column x (microbatches + 1) + n]
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_TIME_COLUMNS_HPP
