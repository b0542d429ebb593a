// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_COLUMNS_HPP
#define BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_COLUMNS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/evaluation/order_program.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The columns that durations are loaded from.
struct order_columns {
  std::span<std::uint32_t> numbers;  ///< of stage s: forward at 2 s, backward at 2 s + 1
  std::uint32_t count = 0;

  [[nodiscard]] std::uint32_t& operator[](pipeline_task const& task) const
  {
    return numbers[2 * to_index(task.stage) + (task.pass == pass::backward ? 1 : 0)];
  }
};

/// Whether two tasks take equally long, whichever microbatch they are both of. O(microbatches).
[[nodiscard]] inline bool take_equally_long(pipeline_task const& a, pipeline_task const& b,
                                            pipeline_times const& times)
{
  auto const time_of = [&times](pipeline_task const& task, std::size_t row) {
    stage_time const& time = times.rows[row + to_index(task.stage)];
    return task.pass == pass::forward ? time.forward : time.backward;
  };
  for (std::size_t row = 0; row < times.rows.size(); row += times.stages) {
    if (time_of(a, row) != time_of(b, row)) { return false; }
  }
  return true;
}

/// Numbers columns in the order in which `tasks`, the numbers of all tasks, first need them. Passes
/// that take equally long, as those of an LLM's stages often do, share one.
///
/// Complexity  O(tasks), and O(microbatches x columns^2) at worst, where columns differ late.
[[nodiscard]] inline order_columns number_columns(compiled_schedule const& schedule,
                                                  pipeline_times const& times,
                                                  std::span<std::uint32_t const> tasks,
                                                  workspace::frame& scratch)
{
  order_columns columns{scratch.take<std::uint32_t>(2 * times.stages)};
  std::fill(columns.numbers.begin(), columns.numbers.end(), no_column);
  auto const firsts = scratch.take<pipeline_task>(columns.numbers.size());
  for (std::uint32_t const number : tasks) {
    pipeline_task const& task = schedule.tasks()[number];
    if (task.position != 0) { continue; }
    std::uint32_t column = 0;
    while (column < columns.count && !take_equally_long(task, firsts[column], times)) { ++column; }
    if (column == columns.count) { firsts[columns.count++] = task; }
    columns[task] = column;
  }
  return columns;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_COLUMNS_HPP
