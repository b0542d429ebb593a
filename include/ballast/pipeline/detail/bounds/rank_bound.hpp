// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_BOUND_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_BOUND_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/disjoint_sums.hpp>
#include <ballast/pipeline/detail/bounds/own_paths.hpp>
#include <ballast/pipeline/detail/bounds/rank_ends.hpp>
#include <ballast/pipeline/detail/bounds/rank_tasks.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

/// What a rank takes at the least, by paths that follow its list of tasks.
///
/// Such a path has all of the rank's work on it, but for what is beyond its ends and what a detour
/// goes round. A detour leaves the list after the forward of a microbatch and comes back for its
/// backward on the same stage, by way of the stages in between: the 1F1B window. An order chooses
/// whose tasks are off the path, so the longest ones are. Of the microbatch with the longest trip
/// the order can only choose the position: the longest path for each position, and the least of
/// these, is a bound too, which beats the others where one trip outlasts all that can be done
/// meanwhile.
///
/// Ensures     (1) no order of the microbatches takes less than bound()
/// Complexity  O(microbatches x stages^2), and with one stage O(window x microbatches x
///             log(microbatches)), where window is the number of tasks in a detour if it is small.
class rank_bound {
 public:
  rank_bound(time_columns const& columns, own_paths const& paths, rank_tasks const& tasks,
             rank_ends const& ends, workspace::frame& scratch)
      : columns_(columns), paths_(paths), tasks_(tasks), ends_(ends)
  {
    for (std::size_t const column : tasks.columns()) { work_ += columns.total(column); }
    if (tasks.kinds() == 2) {
      apart_.emplace(columns[tasks.columns()[0]], columns[tasks.columns()[1]], scratch);
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
      placed held;
      held.microbatch = static_cast<std::size_t>(std::ranges::max_element(trips) - trips.begin());
      time_units least = most_time;
      for (held.position = 0; held.position < trips.size() && least > found; ++held.position) {
        least = std::min(least, longest_path(held, least));
      }
      found = std::max(found, least);
    }
    return found;
  }

 private:
  static constexpr time_units most_time = std::numeric_limits<time_units>::max();
  static constexpr std::size_t most_looked_at = 256;  // tasks off a path, one by one

  /// A microbatch that is taken to be at a position, where that is set.
  struct placed {
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
  /// What was found out about so many tasks, of which `in_both` are of the same microbatches.
  struct looked_at {
    std::array<std::size_t, 2> tasks{};
    std::size_t in_both = 0;
    std::size_t without = 0;
    time_units most = 0;
  };

  [[nodiscard]] bool starts_detour(std::size_t kind) const
  {
    return kind + 1 < tasks_.kinds() && tasks_[tasks_.place_of(kind, 0)].pass == pass::forward &&
           tasks_.columns()[kind + 1] == tasks_.columns()[kind] + 1;
  }
  [[nodiscard]] std::span<time_units const> trips_after(std::size_t kind) const
  {
    return paths_.between(tasks_[tasks_.place_of(kind, 0)].stage);
  }

  /// How long the longest path is if this microbatch is there; of one that is `enough`, no longer.
  [[nodiscard]] time_units longest_path(placed held, time_units enough)
  {
    time_units longest = 0;
    for (bool const closely : {false, true}) {
      if (closely && !apart_) { break; }
      for (std::size_t head = 0; head < ends_.heads().size(); ++head) {
        for (std::size_t tail = 0; tail < ends_.tails().size(); ++tail) {
          std::size_t const first = ends_.heads()[head].place;
          std::size_t const last = ends_.tails()[tail].place;
          if (first > last) { continue; }
          if (longest >= enough) { return longest; }
          longest = std::max(longest, least_time({head, tail, {}}, held, closely));
          for (std::size_t kind = 0; held.position != no_position && kind < tasks_.kinds();
               ++kind) {
            if (!starts_detour(kind)) { continue; }
            detour const around{tasks_.place_of(kind, held.position),
                                tasks_.place_of(kind + 1, held.position),
                                trips_after(kind)[held.microbatch]};
            if (first > around.leave || last < around.back) { continue; }
            longest = std::max(longest, least_time({head, tail, around}, held, closely));
          }
        }
      }
    }
    return longest;
  }

  /// How long a path is at the least.
  [[nodiscard]] time_units least_time(path const& way, placed held, bool closely)
  {
    path_end const& head = ends_.heads()[way.head];
    path_end const& tail = ends_.tails()[way.tail];
    bool const any = held.position == no_position;
    auto const end_time = [&](path_end const& end) {
      return !any && end.position == held.position ? std::max(end.least, end.own[held.microbatch])
                                                   : end.least;
    };
    time_units time =
        work_ + std::max(least_of_ends_[way.head][way.tail], end_time(head) + end_time(tail));
    if (way.around) { time += way.around->trip; }

    auto const is_off = [&](std::size_t place, std::size_t position) {
      return (place < head.place && position != head.position) ||
             (place > tail.place && position != tail.position) ||
             (way.around && place > way.around->leave && place < way.around->back);
    };
    std::array<std::size_t, 2> off{};
    time_units most = 0;
    for (std::size_t kind = 0; kind < tasks_.kinds(); ++kind) {
      std::size_t const column = tasks_.columns()[kind];
      std::size_t tasks = tasks_.before(head.place, kind) + columns_.microbatches() -
                          tasks_.before(tail.place + 1, kind);
      if (way.around) {
        tasks += tasks_.before(way.around->back, kind) - tasks_.before(way.around->leave + 1, kind);
      }
      if (head.position != no_position && tasks_.place_of(kind, head.position) < head.place) {
        --tasks;
      }
      if (tail.position != no_position && tasks_.place_of(kind, tail.position) > tail.place) {
        --tasks;
      }
      if (!any && is_off(tasks_.place_of(kind, held.position), held.position)) {
        --tasks;
        time -= columns_[column][held.microbatch];
      }
      most += most_of(column, tasks, held);
      if (kind < off.size()) { off[kind] = tasks; }
    }
    if (closely && off[0] > 0 && off[1] > 0 && off[0] + off[1] <= most_looked_at) {
      std::size_t in_both = 0;
      auto const look = [&](std::size_t begin, std::size_t end) {
        for (std::size_t place = begin; place < end; ++place) {
          std::size_t const position = tasks_[place].position;
          std::size_t const forward = tasks_.place_of(0, position);
          in_both += place == forward && position != held.position && is_off(place, position) &&
                     is_off(tasks_.place_of(1, position), position);
        }
      };
      look(0, head.place);
      if (way.around) { look(way.around->leave + 1, way.around->back); }
      look(tail.place + 1, tasks_.size());
      most = std::min(most, most_apart(way, off, in_both, held));
    }
    return time - most;
  }

  [[nodiscard]] time_units most_of(std::size_t column, std::size_t tasks, placed held) const
  {
    return held.position == no_position ? columns_.most(column, tasks)
                                        : columns_.most_without(column, tasks, held.microbatch);
  }

  /// The most of so many forwards and backwards, where only `in_both` microbatches have both.
  [[nodiscard]] time_units most_apart(path const& way, std::array<std::size_t, 2> off,
                                      std::size_t in_both, placed held)
  {
    std::size_t const without =
        held.position == no_position ? columns_.microbatches() : held.microbatch;
    looked_at& last = looked_at_[way.head][way.tail][way.around ? 1 : 0];
    if (last.tasks != off || last.in_both != in_both || last.without != without) {
      // One side's share of these microbatches is free to be of any, and the rest is apart.
      time_units const forward = apart_->most(off[0] - in_both, off[1], without) +
                                 most_of(tasks_.columns()[0], in_both, held);
      time_units const backward = apart_->most(off[0], off[1] - in_both, without) +
                                  most_of(tasks_.columns()[1], in_both, held);
      last = {off, in_both, without, std::min(forward, backward)};
    }
    return last.most;
  }

  template <class T>
  using by_ends = std::array<std::array<T, rank_ends::most>, rank_ends::most>;

  time_columns const& columns_;
  own_paths const& paths_;
  rank_tasks const& tasks_;
  rank_ends const& ends_;
  time_units work_ = 0;
  std::optional<disjoint_sums> apart_;  // with a forward and a backward, and no more kinds
  by_ends<time_units> least_of_ends_{};
  by_ends<std::array<looked_at, 2>> looked_at_{};
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_BOUND_HPP
