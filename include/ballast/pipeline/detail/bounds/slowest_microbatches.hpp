// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_SLOWEST_MICROBATCHES_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_SLOWEST_MICROBATCHES_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The microbatches with the longest paths through a pipeline, and their paths from any stage to
/// any other and back.
///
/// Ensures     (1) microbatches() have the longest paths, longest first; ties go to the lowest
///             numbers
///             (2) down(i, s, t) is the longest path of microbatches()[i] from its forward on stage
///             s to the one on t, up(i, s, t) the one from its backward on t to that on s, neither
///             end counted; no_path where t cannot be reached from s
/// Complexity  O(microbatches() x stages x (stages + links) + microbatches x stages).
class slowest_microbatches {
 public:
  static constexpr time_units no_path = -1;

  slowest_microbatches(stage_graph const& stages, time_columns const& columns,
                       microbatch_paths const& paths, std::size_t count, workspace::frame& scratch)
      : stages_(stages.stages()),
        slowest_(scratch.take<std::uint32_t>(columns.microbatches())),
        down_(scratch.take<time_units>(count * stages_ * stages_)),
        up_(scratch.take<time_units>(count * stages_ * stages_))
  {
    std::span<time_units> const lengths = scratch.take<time_units>(slowest_.size());
    for (std::uint32_t at = 0; at < lengths.size(); ++at) {
      slowest_[at] = at;
      lengths[at] = paths.longest_of(at, columns);
    }
    count = std::min(count, slowest_.size());
    std::sort(slowest_.begin(), slowest_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(lengths[b], lengths[a], a, b);
    });
    slowest_ = slowest_.first(count);
    std::fill(down_.begin(), down_.end(), no_path);
    std::fill(up_.begin(), up_.end(), no_path);
    for (std::size_t one = 0; one < count; ++one) {
      for (std::size_t from = 0; from < stages_; ++from) { walk(stages, columns, one, from); }
    }
  }

  [[nodiscard]] std::span<std::uint32_t const> microbatches() const noexcept { return slowest_; }
  [[nodiscard]] time_units down(std::size_t one, std::size_t from, std::size_t to) const
  {
    return down_[index(one, from, to)];
  }
  [[nodiscard]] time_units up(std::size_t one, std::size_t from, std::size_t to) const
  {
    return up_[index(one, from, to)];
  }

 private:
  [[nodiscard]] std::size_t index(std::size_t one, std::size_t from, std::size_t to) const
  {
    return (one * stages_ + from) * stages_ + to;
  }

  void walk(stage_graph const& stages, time_columns const& columns, std::size_t one,
            std::size_t from)
  {
    auto const time = [&](stage_id stage, pass direction) {
      return to_index(stage) == from
                 ? 0
                 : columns[time_columns::column_of(stage, direction)][slowest_[one]];
    };
    down_[index(one, from, from)] = up_[index(one, from, from)] = 0;
    for (auto const& [before, behind, transfer] : stages.links()) {
      std::size_t const at = index(one, from, to_index(before));
      std::size_t const to = index(one, from, to_index(behind));
      if (down_[at] == no_path) { continue; }
      down_[to] = std::max(down_[to], down_[at] + time(before, pass::forward) + transfer);
      // No gradient comes back to a stage without backward, nor through it.
      if (up_[at] == no_path || !stages[before].backward) { continue; }
      up_[to] = std::max(up_[to], up_[at] + time(before, pass::backward) + transfer);
    }
  }

  std::size_t stages_;
  std::span<std::uint32_t> slowest_;
  std::span<time_units> down_;  // [microbatches() x stages x stages], from the stage in front
  std::span<time_units> up_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_SLOWEST_MICROBATCHES_HPP
