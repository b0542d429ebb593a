// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_MICROBATCH_PATHS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_MICROBATCH_PATHS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// How long a microbatch takes through a pipeline that has nothing else to do: before each of its
/// tasks, after it, and between the two passes of a stage.
///
/// Shapes      before, after: [columns x microbatches]; between: [stages x microbatches].
/// Ensures     (1) before(c)[m] is the longest path of m from the start to its task of column c,
///             which it does not count, and after(c)[m] the one from that task to the end
///             (2) between(s)[m] is a path from m's forward on stage s to its backward there,
///             neither counted: the longest of those whose backwards are on the same stages as
///             their forwards
/// Complexity  O((stages + links) x microbatches).
class microbatch_paths {
 public:
  microbatch_paths(stage_graph const& stages, time_columns const& columns,
                   workspace::frame& scratch)
      : microbatches_(columns.microbatches()),
        before_(scratch.take<time_units>(2 * stages.stages() * microbatches_)),
        after_(scratch.take<time_units>(2 * stages.stages() * microbatches_)),
        between_(scratch.take<time_units>(stages.stages() * microbatches_))
  {
    std::fill(before_.begin(), before_.end(), 0);
    std::fill(after_.begin(), after_.end(), 0);
    std::fill(between_.begin(), between_.end(), 0);
    // Links are sorted by the stage that they leave, which is below the one that they enter. So a
    // loop upwards finds the lower stage complete, and a loop downwards the upper one.
    std::span<stage_link const> const links = stages.links();
    auto const forward = [](stage_id stage) {
      return time_columns::column_of(stage, pass::forward);
    };
    auto const backward = [](stage_id stage) {
      return time_columns::column_of(stage, pass::backward);
    };
    auto const reach = [&](std::span<time_units> paths, std::size_t to, std::size_t from,
                           time_units transfer) {
      std::span<time_units> const reached = row(paths, to);
      std::span<time_units const> const path = row(paths, from);
      std::span<time_units const> const time = columns[from];
      for (std::size_t at = 0; at < microbatches_; ++at) {
        reached[at] = std::max(reached[at], path[at] + time[at] + transfer);
      }
    };
    for (auto const& [from, to, transfer] : links) {
      reach(before_, forward(to), forward(from), transfer);
      if (stages[from].backward) { reach(after_, backward(to), backward(from), transfer); }
    }
    for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
      auto const id = to_id<stage_id>(stage);
      if (!stages[id].backward) { continue; }
      reach(before_, backward(id), forward(id), 0);
      reach(after_, forward(id), backward(id), 0);
    }
    for (std::size_t link = links.size(); link-- > 0;) {
      auto const& [from, to, transfer] = links[link];
      reach(after_, forward(from), forward(to), transfer);
      if (!stages[from].backward) { continue; }
      reach(before_, backward(from), backward(to), transfer);
      std::span<time_units> const trip = row(between_, to_index(from));
      std::span<time_units const> const longer = row(between_, to_index(to));
      for (std::size_t at = 0; at < microbatches_; ++at) {
        trip[at] = std::max(trip[at], longer[at] + columns[forward(to)][at] +
                                          columns[backward(to)][at] + 2 * transfer);
      }
    }
  }

  /// The longest path of a microbatch through all of its stages.
  [[nodiscard]] time_units longest_of(std::size_t microbatch, time_columns const& columns) const
  {
    time_units longest = 0;
    for (std::size_t column = 0; column < before_.size() / microbatches_; column += 2) {
      longest = std::max(longest, before(column)[microbatch] + columns[column][microbatch] +
                                      after(column)[microbatch]);
    }
    return longest;
  }

  /// The longest path of any microbatch.
  [[nodiscard]] time_units longest(time_columns const& columns) const
  {
    time_units longest = 0;
    for (std::size_t at = 0; at < microbatches_; ++at) {
      longest = std::max(longest, longest_of(at, columns));
    }
    return longest;
  }

  [[nodiscard]] std::span<time_units const> before(std::size_t column) const
  {
    return row(before_, column);
  }
  [[nodiscard]] std::span<time_units const> after(std::size_t column) const
  {
    return row(after_, column);
  }
  [[nodiscard]] std::span<time_units const> between(stage_id stage) const
  {
    return row(between_, to_index(stage));
  }

 private:
  [[nodiscard]] std::span<time_units> row(std::span<time_units> all, std::size_t number) const
  {
    return all.subspan(number * microbatches_, microbatches_);
  }

  std::size_t microbatches_;
  std::span<time_units> before_;
  std::span<time_units> after_;
  std::span<time_units> between_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_MICROBATCH_PATHS_HPP
