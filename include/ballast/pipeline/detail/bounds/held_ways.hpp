// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_HELD_WAYS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_HELD_WAYS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/own_paths.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The microbatches with the longest ways through a pipeline, and their ways from any stage to any
/// other and back.
///
/// Ensures     (1) no microbatch that is not held has a longer way than one that is; ties go to the
///             lowest numbers
///             (2) down(h, s, t) is the longest path of held microbatch h from its forward on stage
///             s to the one on t, up(h, s, t) the one from its backward on t to that on s, neither
///             end counted; no_way where t cannot be reached from s
/// Complexity  O(held x stages x (stages + links) + microbatches x stages).
class held_ways {
 public:
  static constexpr time_units no_way = -1;

  held_ways(stage_graph const& stages, time_columns const& columns, own_paths const& paths,
            std::size_t most_held, workspace::frame& scratch)
      : stages_(stages.stages()),
        held_(scratch.take<std::uint32_t>(columns.microbatches())),
        down_(scratch.take<time_units>(most_held * stages_ * stages_)),
        up_(scratch.take<time_units>(most_held * stages_ * stages_))
  {
    std::span<time_units> const ways = scratch.take<time_units>(held_.size());
    for (std::uint32_t at = 0; at < ways.size(); ++at) {
      held_[at] = at;
      ways[at] = paths.way_of(at, columns);
    }
    std::size_t const held = std::min(most_held, held_.size());
    std::ranges::partial_sort(held_, held_.begin() + static_cast<std::ptrdiff_t>(held),
                              [&](std::uint32_t a, std::uint32_t b) {
                                return ways[a] != ways[b] ? ways[a] > ways[b] : a < b;
                              });
    held_ = held_.first(held);
    std::ranges::fill(down_, no_way);
    std::ranges::fill(up_, no_way);
    for (std::size_t one = 0; one < held; ++one) {
      for (std::size_t from = 0; from < stages_; ++from) { walk(stages, columns, one, from); }
    }
  }

  [[nodiscard]] std::span<std::uint32_t const> microbatches() const noexcept { return held_; }
  [[nodiscard]] time_units down(std::size_t held, std::size_t from, std::size_t to) const
  {
    return down_[index(held, from, to)];
  }
  [[nodiscard]] time_units up(std::size_t held, std::size_t from, std::size_t to) const
  {
    return up_[index(held, from, to)];
  }

 private:
  [[nodiscard]] std::size_t index(std::size_t held, std::size_t from, std::size_t to) const
  {
    return (held * stages_ + from) * stages_ + to;
  }

  void walk(stage_graph const& stages, time_columns const& columns, std::size_t held,
            std::size_t from)
  {
    auto const time = [&](stage_id stage, pass way) {
      return to_index(stage) == from ? 0
                                     : columns[time_columns::column_of(stage, way)][held_[held]];
    };
    down_[index(held, from, from)] = up_[index(held, from, from)] = 0;
    for (auto const& [before, behind, transfer] : stages.links()) {
      std::size_t const at = index(held, from, to_index(before));
      std::size_t const to = index(held, from, to_index(behind));
      if (down_[at] == no_way) { continue; }
      down_[to] = std::max(down_[to], down_[at] + time(before, pass::forward) + transfer);
      // No gradient comes back to a stage without backward, nor through it.
      if (up_[at] == no_way || !stages[before].backward) { continue; }
      up_[to] = std::max(up_[to], up_[at] + time(before, pass::backward) + transfer);
    }
  }

  std::size_t stages_;
  std::span<std::uint32_t> held_;
  std::span<time_units> down_;  // [held x stages x stages], from the one in front
  std::span<time_units> up_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_HELD_WAYS_HPP
