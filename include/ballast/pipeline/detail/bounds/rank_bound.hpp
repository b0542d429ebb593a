// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_BOUND_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_BOUND_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/disjoint_sums.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/rank_ends.hpp>
#include <ballast/pipeline/detail/bounds/rank_tasks.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

/// A lower bound of the step, by paths that follow a rank's list of tasks.
///
/// Such a path has all of the rank's work on it, except what is beyond its ends and what a detour
/// leaves out. A detour leaves the list after the forward of a microbatch, follows it through the
/// later stages, and returns for its backward on the same stage: the 1F1B window. An order chooses
/// whose tasks are off the path, so the bound takes the longest ones off. For the microbatch with
/// the longest trip the order can only choose the position. So the least, over the positions, of
/// the longest path for each is a bound too; it is larger than the others where one trip takes
/// longer than all that can be done meanwhile.
///
/// Ensures     (1) no order of the microbatches takes less than bound()
/// Complexity  O(microbatches x stages^2), and with one stage O(window x microbatches x
///             log(microbatches)), where window is the number of tasks in a detour if it is small.
class rank_bound {
 public:
  rank_bound(time_columns const& columns, microbatch_paths const& paths, rank_tasks const& tasks,
             rank_ends const& ends, workspace::frame& scratch)
      : columns_(columns), paths_(paths), tasks_(tasks), ends_(ends)
  {
    for (std::size_t const column : tasks.columns()) { work_ += columns.total(column); }
    if (tasks.kinds() == 2) {
      apart_ = {columns[tasks.columns()[0]], columns[tasks.columns()[1]], scratch};
    }
    for (std::size_t head = 0; head < ends.heads().size(); ++head) {
      for (std::size_t tail = 0; tail < ends.tails().size(); ++tail) {
        least_of_ends_[head][tail] = least_of_both(ends.heads()[head], ends.tails()[tail]);
      }
    }
  }

  /// All work of the rank, and what comes before and after it.
  [[nodiscard]] time_units whole() const { return work_ + least_of_ends_[0][0]; }

  /// The larger of `found` and what this rank takes.
  [[nodiscard]] time_units bound(time_units found)
  {
    found = std::max(found, longest_path({}, most_time));
    for (std::size_t kind = 0; kind < tasks_.kinds(); ++kind) {
      if (!starts_detour(kind)) { continue; }
      std::span<time_units const> const trips = trips_after(kind);
      fixed_microbatch fixed;
      fixed.microbatch =
          static_cast<std::size_t>(std::max_element(trips.begin(), trips.end()) - trips.begin());
      time_units least = most_time;
      for (fixed.position = 0; fixed.position < trips.size() && least > found; ++fixed.position) {
        least = std::min(least, longest_path(fixed, least));
      }
      found = std::max(found, least);
    }
    return found;
  }

 private:
  static constexpr time_units most_time = std::numeric_limits<time_units>::max();
  static constexpr std::size_t most_counted = 256;  // tasks off a path, one by one

  /// A microbatch that is assumed to be at a position; none where the position is not set.
  struct fixed_microbatch {
    std::size_t microbatch = 0;
    std::size_t position = no_position;
  };
  /// The tasks from `leave` to `back`, neither included, are off the path, and the trip is on it.
  struct detour {
    std::size_t leave;
    std::size_t back;
    time_units trip;
  };
  struct path {
    std::size_t head;  // among the ends of the rank
    std::size_t tail;
    std::optional<detour> around;
  };
  /// The last result of most_apart(), and what it was found for.
  struct last_result {
    std::array<std::size_t, 2> tasks{};
    std::size_t in_both = 0;
    std::size_t without = 0;
    time_units most = 0;
  };

  [[nodiscard]] bool starts_detour(std::size_t kind) const
  {
    return kind + 1 < tasks_.kinds() && tasks_[tasks_.index_of(kind, 0)].pass == pass::forward &&
           tasks_.columns()[kind + 1] == tasks_.columns()[kind] + 1;
  }
  [[nodiscard]] std::span<time_units const> trips_after(std::size_t kind) const
  {
    return paths_.between(tasks_[tasks_.index_of(kind, 0)].stage);
  }

  /// How long the longest path is with this microbatch at its position; it stops at `enough`.
  [[nodiscard]] time_units longest_path(fixed_microbatch fixed, time_units enough)
  {
    time_units longest = 0;
    for (bool const closely : {false, true}) {
      if (closely && tasks_.kinds() != 2) { break; }
      for (std::size_t head = 0; head < ends_.heads().size(); ++head) {
        for (std::size_t tail = 0; tail < ends_.tails().size(); ++tail) {
          std::size_t const first = ends_.heads()[head].index;
          std::size_t const last = ends_.tails()[tail].index;
          if (first > last) { continue; }
          if (longest >= enough) { return longest; }
          longest = std::max(longest, least_time({head, tail, {}}, fixed, closely));
          for (std::size_t kind = 0; fixed.position != no_position && kind < tasks_.kinds();
               ++kind) {
            if (!starts_detour(kind)) { continue; }
            detour const around{tasks_.index_of(kind, fixed.position),
                                tasks_.index_of(kind + 1, fixed.position),
                                trips_after(kind)[fixed.microbatch]};
            if (first > around.leave || last < around.back) { continue; }
            longest = std::max(longest, least_time({head, tail, around}, fixed, closely));
          }
        }
      }
    }
    return longest;
  }

  /// How long a path is at the least.
  [[nodiscard]] time_units least_time(path const& route, fixed_microbatch fixed, bool closely)
  {
    path_end const& head = ends_.heads()[route.head];
    path_end const& tail = ends_.tails()[route.tail];
    bool const any = fixed.position == no_position;
    auto const end_time = [&](path_end const& end) {
      return !any && end.position == fixed.position ? std::max(end.least, end.own[fixed.microbatch])
                                                    : end.least;
    };
    time_units time =
        work_ + std::max(least_of_ends_[route.head][route.tail], end_time(head) + end_time(tail));
    if (route.around) { time += route.around->trip; }

    auto const is_off = [&](std::size_t index, std::size_t position) {
      return (index < head.index && position != head.position) ||
             (index > tail.index && position != tail.position) ||
             (route.around && index > route.around->leave && index < route.around->back);
    };
    std::array<std::size_t, 2> off{};
    time_units most = 0;
    for (std::size_t kind = 0; kind < tasks_.kinds(); ++kind) {
      std::size_t const column = tasks_.columns()[kind];
      std::size_t tasks = tasks_.before(head.index, kind) + columns_.microbatches() -
                          tasks_.before(tail.index + 1, kind);
      if (route.around) {
        tasks +=
            tasks_.before(route.around->back, kind) - tasks_.before(route.around->leave + 1, kind);
      }
      if (head.position != no_position && tasks_.index_of(kind, head.position) < head.index) {
        --tasks;
      }
      if (tail.position != no_position && tasks_.index_of(kind, tail.position) > tail.index) {
        --tasks;
      }
      if (!any && is_off(tasks_.index_of(kind, fixed.position), fixed.position)) {
        --tasks;
        time -= columns_[column][fixed.microbatch];
      }
      most += most_of(column, tasks, fixed);
      if (kind < off.size()) { off[kind] = tasks; }
    }
    if (closely && off[0] > 0 && off[1] > 0 && off[0] + off[1] <= most_counted) {
      std::size_t in_both = 0;
      auto const count = [&](std::size_t begin, std::size_t end) {
        for (std::size_t index = begin; index < end; ++index) {
          std::size_t const position = tasks_[index].position;
          std::size_t const forward = tasks_.index_of(0, position);
          in_both += index == forward && position != fixed.position && is_off(index, position) &&
                     is_off(tasks_.index_of(1, position), position);
        }
      };
      count(0, head.index);
      if (route.around) { count(route.around->leave + 1, route.around->back); }
      count(tail.index + 1, tasks_.size());
      most = std::min(most, most_apart(route, off, in_both, fixed));
    }
    return time - most;
  }

  [[nodiscard]] time_units most_of(std::size_t column, std::size_t tasks,
                                   fixed_microbatch fixed) const
  {
    return fixed.position == no_position ? columns_.most(column, tasks)
                                         : columns_.most_without(column, tasks, fixed.microbatch);
  }

  /// The most that so many forwards and backwards take, where `in_both` microbatches have both.
  [[nodiscard]] time_units most_apart(path const& route, std::array<std::size_t, 2> off,
                                      std::size_t in_both, fixed_microbatch fixed)
  {
    std::size_t const without =
        fixed.position == no_position ? columns_.microbatches() : fixed.microbatch;
    last_result& last = last_results_[route.head][route.tail][route.around ? 1 : 0];
    if (last.tasks != off || last.in_both != in_both || last.without != without) {
      // The passes of these microbatches in one column may be of any; all others are apart.
      time_units const forward = apart_.most(off[0] - in_both, off[1], without) +
                                 most_of(tasks_.columns()[0], in_both, fixed);
      time_units const backward = apart_.most(off[0], off[1] - in_both, without) +
                                  most_of(tasks_.columns()[1], in_both, fixed);
      last = {off, in_both, without, std::min(forward, backward)};
    }
    return last.most;
  }

  template <class T>
  using by_ends = std::array<std::array<T, rank_ends::most>, rank_ends::most>;

  time_columns const& columns_;
  microbatch_paths const& paths_;
  rank_tasks const& tasks_;
  rank_ends const& ends_;
  time_units work_ = 0;
  disjoint_sums apart_;  // for ranks with one forward and one backward kind
  by_ends<time_units> least_of_ends_{};
  by_ends<std::array<last_result, 2>> last_results_{};
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_BOUND_HPP
