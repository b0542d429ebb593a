// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_TASKS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_TASKS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The list of tasks of a rank, and where in it each task is. A kind is a pass on one of its
/// stages.
///
/// Ensures     (1) before(index, kind) counts the tasks of a kind among the first `index` of the
///             list
///             (2) index_of(kind, position) is the index of the task of that kind and position
/// Complexity  construction: O(tasks of the rank x its stages); all else O(1).
class rank_tasks {
 public:
  rank_tasks(compiled_schedule const& schedule, pipeline_rank rank, workspace::frame& scratch)
      : microbatches_(schedule.microbatches()),
        all_(schedule.tasks()),
        numbers_(schedule.tasks_on(rank))
  {
    std::span<stage_id const> const stages = schedule.stages().stages_on(rank);
    columns_ = scratch.take<std::size_t>(2 * stages.size());
    std::size_t kinds = 0;
    for (stage_id const stage : stages) {
      if (schedule.stages()[stage].has_forward()) {
        columns_[kinds++] = time_columns::column_of(stage, pass::forward);
      }
      if (schedule.stages()[stage].backward) {
        columns_[kinds++] = time_columns::column_of(stage, pass::backward);
      }
    }
    columns_ = columns_.first(kinds);
    counts_ = scratch.take<std::uint32_t>((numbers_.size() + 1) * kinds);
    indices_ = scratch.take<std::uint32_t>(kinds * microbatches_);
    std::fill_n(counts_.begin(), kinds, 0U);
    for (std::size_t index = 0; index < numbers_.size(); ++index) {
      pipeline_task const& task = (*this)[index];
      std::size_t const kind = kind_of(task);
      std::copy_n(counts_.data() + index * kinds, kinds, counts_.data() + (index + 1) * kinds);
      ++counts_[(index + 1) * kinds + kind];
      indices_[kind * microbatches_ + task.position] = static_cast<std::uint32_t>(index);
    }
  }

  /// The numbers of the tasks in the schedule, in the order in which the rank does them.
  [[nodiscard]] std::span<std::uint32_t const> numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::size_t size() const noexcept { return numbers_.size(); }
  [[nodiscard]] pipeline_task const& operator[](std::size_t index) const
  {
    return all_[numbers_[index]];
  }

  /// The column of each kind; kinds are in the order of their columns.
  [[nodiscard]] std::span<std::size_t const> columns() const noexcept { return columns_; }
  [[nodiscard]] std::size_t kinds() const noexcept { return columns_.size(); }
  [[nodiscard]] std::size_t kind_of(pipeline_task const& task) const
  {
    auto const found =
        std::lower_bound(columns_.begin(), columns_.end(), time_columns::column_of(task));
    return static_cast<std::size_t>(found - columns_.begin());
  }

  [[nodiscard]] std::size_t before(std::size_t index, std::size_t kind) const
  {
    return counts_[index * kinds() + kind];
  }
  [[nodiscard]] std::size_t index_of(std::size_t kind, std::size_t position) const
  {
    return indices_[kind * microbatches_ + position];
  }

 private:
  std::size_t microbatches_;
  std::span<pipeline_task const> all_;
  std::span<std::uint32_t const> numbers_;
  std::span<std::size_t> columns_;
  std::span<std::uint32_t> counts_;   // [(tasks + 1) x kinds]
  std::span<std::uint32_t> indices_;  // [kinds x microbatches]
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_TASKS_HPP
