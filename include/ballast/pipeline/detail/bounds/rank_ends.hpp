// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_ENDS_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_ENDS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/rank_tasks.hpp>
#include <ballast/pipeline/detail/bounds/task_bounds.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

inline constexpr std::size_t no_position = std::numeric_limits<std::size_t>::max();

/// Where a path along a rank begins, or where it ends.
///
/// The rank's tasks beyond the end are not on the path. On it is what leads to the end, or on from
/// there: for any microbatch, or for the one at `position`, less that one's tasks beyond.
struct path_end {
  std::size_t index = 0;  ///< in the rank's list, of the first task of the path, or of its last
  std::size_t position = no_position;
  time_units least = 0;               ///< whichever microbatch is at the position
  std::span<time_units const> own{};  ///< by the microbatch at the position, if there is a position
};

/// The ends that paths along a rank can have: its first task and its first backward; its last task
/// and its last forward.
///
/// At the first backward and at the last forward there are two ends: one with the path of any
/// microbatch to or from that task, and one with the path of the task's own microbatch.
class rank_ends {
 public:
  rank_ends(rank_tasks const& tasks, time_columns const& columns, microbatch_paths const& paths,
            task_bounds const& bounds, workspace::frame& scratch)
      : heads_(scratch.take<path_end>(most)), tails_(scratch.take<path_end>(most))
  {
    std::size_t head_count = 0;
    std::size_t tail_count = 0;
    std::size_t first_backward = 0;
    while (first_backward < tasks.size() && tasks[first_backward].pass == pass::forward) {
      ++first_backward;
    }
    std::size_t forwards = tasks.size();  // up to the last one
    while (forwards > 0 && tasks[forwards - 1].pass == pass::backward) { --forwards; }

    auto const add = [&](bool head, std::size_t index) {
      std::uint32_t const number = tasks.numbers()[index];
      pipeline_task const& task = tasks[index];
      std::size_t const column = time_columns::column_of(task);
      time_units const any = head ? bounds.heads()[number] : bounds.tails()[number];
      std::span<time_units> const own = scratch.take<time_units>(columns.microbatches());
      std::copy_n(head ? paths.before(column).begin() : paths.after(column).begin(), own.size(),
                  own.begin());
      for (std::size_t kind = 0; kind < tasks.kinds(); ++kind) {
        std::size_t const other = tasks.index_of(kind, task.position);
        if (head ? other >= index : other <= index) { continue; }
        std::span<time_units const> const times = columns[tasks.columns()[kind]];
        for (std::size_t at = 0; at < own.size(); ++at) { own[at] -= times[at]; }
      }
      time_units const least = *std::min_element(own.begin(), own.end());
      bool const whole = index == (head ? 0 : tasks.size() - 1);
      auto const& ends = head ? heads_ : tails_;
      std::size_t& count = head ? head_count : tail_count;
      ends[count++] = {index, task.position, whole ? std::max(any, least) : least, own};
      if (!whole) { ends[count++] = {index, no_position, any, {}}; }
    };
    add(true, 0);
    add(false, tasks.size() - 1);
    if (first_backward > 0 && first_backward < tasks.size()) { add(true, first_backward); }
    if (forwards > 0 && forwards < tasks.size()) { add(false, forwards - 1); }
    heads_ = heads_.first(head_count);
    tails_ = tails_.first(tail_count);
  }

  static constexpr std::size_t most = 3;
  [[nodiscard]] std::span<path_end const> heads() const { return heads_; }
  [[nodiscard]] std::span<path_end const> tails() const { return tails_; }

 private:
  std::span<path_end> heads_;
  std::span<path_end> tails_;
};

/// What a head and a tail take together at the least: different microbatches are at different
/// positions.
[[nodiscard]] inline time_units least_of_both(path_end const& head, path_end const& tail)
{
  time_units const apart = head.least + tail.least;
  if (head.position == no_position || tail.position == no_position ||
      head.position == tail.position) {
    return apart;
  }
  struct two_least {
    std::size_t at = 0;
    time_units second = std::numeric_limits<time_units>::max();
  };
  auto const find = [](std::span<time_units const> own) {
    two_least found;
    for (std::size_t at = 1; at < own.size(); ++at) {
      if (own[at] < own[found.at]) {
        found = {at, own[found.at]};
      } else {
        found.second = std::min(found.second, own[at]);
      }
    }
    return found;
  };
  two_least const of_head = find(head.own);
  two_least const of_tail = find(tail.own);
  if (of_head.at != of_tail.at) { return apart; }
  return std::max(apart, std::min(head.own[of_head.at] + of_tail.second,
                                  of_head.second + tail.own[of_tail.at]));
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_RANK_ENDS_HPP
