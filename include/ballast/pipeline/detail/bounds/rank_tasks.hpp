// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_TASKS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_TASKS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// What a rank does, and where in its list each task is. A kind is a pass on one of its stages.
///
/// Ensures     (1) before(place, kind) counts the tasks of a kind among the first `place` of the
///             list
///             (2) place_of(kind, position) is where the task of that kind and position is
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
      columns_[kinds++] = time_columns::column_of(stage, pass::forward);
      if (schedule.stages()[stage].backward) {
        columns_[kinds++] = time_columns::column_of(stage, pass::backward);
      }
    }
    columns_ = columns_.first(kinds);
    counts_ = scratch.take<std::uint32_t>((numbers_.size() + 1) * kinds);
    places_ = scratch.take<std::uint32_t>(kinds * microbatches_);
    std::ranges::fill(counts_.first(kinds), 0U);
    for (std::size_t place = 0; place < numbers_.size(); ++place) {
      pipeline_task const& task = (*this)[place];
      std::size_t const kind = kind_of(task);
      std::ranges::copy(counts_.subspan(place * kinds, kinds),
                        counts_.subspan((place + 1) * kinds).begin());
      ++counts_[(place + 1) * kinds + kind];
      places_[kind * microbatches_ + task.position] = static_cast<std::uint32_t>(place);
    }
  }

  /// The numbers of the tasks in the schedule, in the order in which the rank does them.
  [[nodiscard]] std::span<std::uint32_t const> numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::size_t size() const noexcept { return numbers_.size(); }
  [[nodiscard]] pipeline_task const& operator[](std::size_t place) const
  {
    return all_[numbers_[place]];
  }

  /// The column of each kind; kinds are in the order of their columns.
  [[nodiscard]] std::span<std::size_t const> columns() const noexcept { return columns_; }
  [[nodiscard]] std::size_t kinds() const noexcept { return columns_.size(); }
  [[nodiscard]] std::size_t kind_of(pipeline_task const& task) const
  {
    auto const found = std::ranges::lower_bound(columns_, time_columns::column_of(task));
    return static_cast<std::size_t>(found - columns_.begin());
  }

  [[nodiscard]] std::size_t before(std::size_t place, std::size_t kind) const
  {
    return counts_[place * kinds() + kind];
  }
  [[nodiscard]] std::size_t place_of(std::size_t kind, std::size_t position) const
  {
    return places_[kind * microbatches_ + position];
  }

 private:
  std::size_t microbatches_;
  std::span<pipeline_task const> all_;
  std::span<std::uint32_t const> numbers_;
  std::span<std::size_t> columns_;
  std::span<std::uint32_t> counts_;  // [(tasks + 1) x kinds]
  std::span<std::uint32_t> places_;  // [kinds x microbatches]
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_TASKS_HPP
