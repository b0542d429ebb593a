// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_SEARCH_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_SEARCH_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/task_bounds.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/detail/orders/microbatch_kinds.hpp>
#include <ballast/pipeline/detail/orders/partial_order.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Searches all orders for the best one, depth first, first positions first.
///
/// A beginning of an order is given up when no order that continues it is good enough. That is
/// known from two bounds: for every task that the beginning decides, what follows the task under
/// any order; and for every rank, how long all its other tasks take together. Equal microbatches
/// are one kind: of those that are left at a position, one is tried.
///
/// Expects     at least one microbatch.
/// Units       a node is a microbatch at a position: the search simulates the tasks that it
///             decides.
/// Complexity  per node O(l) and the tasks that the position decides with what they wait for: tasks
///             / l of them on average over the positions, but under GPipe all backwards with the
///             last one. The constructor costs as much as task_bounds.
class order_search {
 public:
  order_search(order_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        microbatches_(problem.schedule.microbatches()),
        ranks_(problem.schedule.stages().ranks()),
        path_(scratch.take<microbatch_id>(microbatches_)),
        next_(scratch.take<std::size_t>(microbatches_)),
        is_placed_(scratch.take<bool>(microbatches_)),
        equal_before_(microbatch_kinds(problem, scratch).before),
        ends_(scratch.take<time_units>(problem.schedule.tasks().size())),
        known_(scratch.take<rank_progress>((microbatches_ + 1) * ranks_)),
        bounds_(scratch.take<time_units>(microbatches_ + 1))
  {
    time_columns const columns(problem.times, problem.schedule.stages(), scratch);
    microbatch_paths const paths(problem.schedule.stages(), columns, scratch);
    tails_ = task_bounds(problem.schedule, columns, paths, scratch).tails();
    std::fill(is_placed_.begin(), is_placed_.end(), false);
    measure_ranks(columns);
  }

  /// Finds, of the orders that take the least time, the first in lexicographic order, if that time
  /// is below `limit`. It gives up when the budget of nodes is spent.
  ///
  /// In, out   order is overwritten where one is found, and limit becomes its time.
  /// Returns   whether it came to its end: no order takes less than limit then.
  [[nodiscard]] bool operator()(std::span<microbatch_id> order, time_units& limit,
                                work_budget& nodes)
  {
    std::size_t depth = 0;
    next_[0] = 0;
    while (true) {
      std::size_t const microbatch = next_candidate(next_[depth]);
      if (microbatch == microbatches_) {
        if (depth == 0) { return true; }
        is_placed_[to_index(path_[--depth])] = false;
        continue;
      }
      if (nodes.spent()) { return false; }
      nodes.spend(1);
      next_[depth] = microbatch + 1;
      path_[depth] = to_id<microbatch_id>(microbatch);
      time_units const bound = simulate_position(depth);
      if (bound >= limit) { continue; }
      if (depth + 1 < microbatches_) {
        is_placed_[microbatch] = true;
        next_[++depth] = 0;
        continue;
      }
      limit = bound;
      std::copy(path_.begin(), path_.end(), order.begin());
      if (limit <= problem_.lower_bound) { return true; }
    }
  }

 private:
  struct rank_progress {
    time_units until = 0;  ///< the end of the last task that is known
    time_units left = 0;   ///< how long all others of the rank take together
  };

  static constexpr std::size_t none = microbatch_kinds::none;

  // Of microbatches with equal times only the first that is left is tried.
  [[nodiscard]] std::size_t next_candidate(std::size_t microbatch) const
  {
    while (microbatch < microbatches_ &&
           (is_placed_[microbatch] ||
            (equal_before_[microbatch] != none && !is_placed_[equal_before_[microbatch]]))) {
      ++microbatch;
    }
    return microbatch;
  }

  // Returns a lower bound of all orders that begin with path_[0..depth]; of a whole order, its
  // time.
  [[nodiscard]] time_units simulate_position(std::size_t depth)
  {
    compiled_schedule const& schedule = problem_.schedule;
    partial_order const known{problem_, path_.first(depth + 1), ends_};
    auto const before = known_.subspan(depth * ranks_, ranks_);
    auto const after = known_.subspan((depth + 1) * ranks_, ranks_);
    std::copy(before.begin(), before.end(), after.begin());
    time_units bound = bounds_[depth];
    std::size_t const last = schedule.tasks_before(depth + 1);
    for (std::size_t task = schedule.tasks_before(depth); task < last; ++task) {
      auto& of_rank = after[to_index(schedule.stages()[schedule.tasks()[task].stage].rank)];
      time_units const duration = known.duration(task);
      of_rank.until = ends_[task] = known.start(task) + duration;
      of_rank.left -= duration;
      bound = std::max(bound, ends_[task] + tails_[task]);
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::uint32_t const end = schedule.tasks_on(to_id<pipeline_rank>(rank)).back();
      bound = std::max(bound, after[rank].until + after[rank].left + tails_[end]);
    }
    return bounds_[depth + 1] = bound;
  }

  void measure_ranks(time_columns const& columns)
  {
    stage_graph const& stages = problem_.schedule.stages();
    bounds_[0] = problem_.lower_bound;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      known_[rank] = {};
      for (stage_id const stage : stages.stages_on(to_id<pipeline_rank>(rank))) {
        known_[rank].left += columns.total(time_columns::column_of(stage, pass::forward));
        if (!stages[stage].backward) { continue; }
        known_[rank].left += columns.total(time_columns::column_of(stage, pass::backward));
      }
    }
  }

  order_problem const& problem_;
  std::size_t microbatches_;
  std::size_t ranks_;
  std::span<microbatch_id> path_;
  std::span<std::size_t> next_;  ///< of each position: the microbatch to try next
  std::span<bool> is_placed_;
  std::span<std::size_t const> equal_before_;  ///< the last one before with the same times, or none
  std::span<time_units> ends_;
  std::span<rank_progress> known_;  ///< of each rank, by how many positions are decided
  std::span<time_units> bounds_;    ///< lower bounds, by how many positions are decided
  std::span<time_units const> tails_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_SEARCH_HPP
