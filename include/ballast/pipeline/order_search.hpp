// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/detail/rank_view.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/order_policies.hpp>

namespace ballast::inline v0 {

/// Longest microbatch first, each inserted where it costs least among those before it: the NEH
/// heuristic of flow shops.
///
/// A round inserts one microbatch. It tries all positions, by simulating the whole schedule with
/// the microbatches to come at the end and taking no time. Where that would be more evaluations
/// than allowed, from 256 microbatches on, every round tries `evaluations` / l positions but at
/// least two: the first, the last and evenly spread ones. When the evaluations are used up, the
/// microbatches that are left go to the end, longest first.
///
/// Ensures     (1) microbatches enter by total time, longest first and of equal ones the lowest; of
///             equally good positions that are tried the first is taken
///             (2) the order depends on nothing but the times and the schedule
/// Complexity  at most `evaluations` evaluations of an order, O(tasks) each; at most 4 l^2 bytes of
///             scratch.
/// Source      M. Nawaz, E. E. Enscore, I. Ham, "A Heuristic Algorithm for the m-Machine, n-Job
///             Flow-Shop Sequencing Problem", Omega 11(1):91-95, 1983; there for flow shops, whose
///             machines do every job once.
struct insertion {
  std::uint64_t evaluations = 32'768;

  void operator()(order_problem const& problem, std::span<microbatch_id> order,
                  workspace& memory) const
  {
    std::size_t const count = order.size();
    detail::expect_order_of(problem.schedule, order);
    auto scratch = memory.open();
    auto const total = detail::total_times(problem, scratch);
    auto const longest_first = scratch.take<microbatch_id>(count);
    std::copy(order.begin(), order.end(), longest_first.begin());
    std::sort(longest_first.begin(), longest_first.end(),
              [total](microbatch_id a, microbatch_id b) {
                return detail::precedes(total[to_index(b)], total[to_index(a)], a, b);
              });

    order_evaluator evaluator(problem.schedule, problem.times, scratch);
    std::size_t const most = positions_per_round(count);
    auto const candidates = scratch.take<microbatch_id>(most * count);
    auto const makespans = scratch.take<time_units>(most);
    std::fill(candidates.begin(), candidates.end(), to_id<microbatch_id>(count));  // no microbatch
    detail::work_budget budget(evaluations);
    for (std::size_t placed = 0; placed < count; ++placed) {
      auto const tried = makespans.first(std::min(placed + 1, most));
      if (budget.left() < tried.size()) {
        auto const unplaced = longest_first.subspan(placed);
        std::copy(unplaced.begin(), unplaced.end(), order.subspan(placed).begin());
        return;
      }
      budget.spend(tried.size());
      for (std::size_t number = 0; number < tried.size(); ++number) {
        std::size_t const position =
            tried.size() == placed + 1 ? number : number * placed / (tried.size() - 1);
        auto const candidate = candidates.subspan(number * count, placed + 1);
        auto const before = order.first(position);
        auto const behind = order.subspan(position, placed - position);
        auto const rest = std::copy(before.begin(), before.end(), candidate.begin());
        *rest = longest_first[placed];
        std::copy(behind.begin(), behind.end(), rest + 1);
      }
      evaluator.evaluate_into(tried, candidates.first(tried.size() * count));
      auto const best =
          static_cast<std::size_t>(std::min_element(tried.begin(), tried.end()) - tried.begin());
      auto const chosen = candidates.subspan(best * count, placed + 1);
      std::copy(chosen.begin(), chosen.end(), order.begin());
    }
  }

  friend bool operator==(insertion const&, insertion const&) = default;

 private:
  [[nodiscard]] constexpr std::size_t positions_per_round(std::size_t count) const
  {
    if (count * (count + 1) / 2 <= evaluations) { return count; }
    return std::clamp<std::size_t>(evaluations / count, std::min<std::size_t>(count, 2), count);
  }
};

namespace detail {

/// The times of a step by microbatch, and which microbatches are equal: those that take the same
/// times on all stages are of one kind, and orders that differ in equal microbatches only take
/// equally long. What a stage without backward has as backward does not count.
///
/// Ensures     (1) of[a] == of[b] if and only if a and b take the same times
///             (2) kinds are numbered from 0 to count - 1
///             (3) before[m] is the last microbatch of m's kind with a lower number, or `none`
/// Complexity  O(l log l x stages).
struct microbatch_kinds {
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  std::span<std::size_t> of;
  std::span<std::size_t> before;
  std::size_t count = 0;
  std::size_t width = 0;        ///< times of a microbatch
  std::span<time_units> times;  ///< microbatches x width

  microbatch_kinds(order_problem const& problem, workspace::frame& scratch)
      : of(scratch.take<std::size_t>(problem.schedule.microbatches())),
        before(scratch.take<std::size_t>(of.size())),
        width(stage_passes * problem.times.stages),
        times(scratch.take<time_units>(of.size() * width))
  {
    stage_graph const& stages = problem.schedule.stages();
    for (std::size_t at = 0; at < problem.times.rows.size(); ++at) {
      pipeline_stage const& own = stages[to_id<stage_id>(at % problem.times.stages)];
      times[stage_passes * at] = problem.times.of(at, pass::forward);
      times[stage_passes * at + 1] = own.backward ? problem.times.of(at, pass::backward) : 0;
      times[stage_passes * at + 2] = own.weights ? problem.times.of(at, pass::weights) : 0;
    }
    // The first times of two microbatches that differ, or the last ones where none do.
    auto const first_difference = [this](std::size_t a, std::size_t b) {
      auto const of_a = times_of(a);
      auto const [own, other] = std::mismatch(of_a.begin(), of_a.end() - 1, times_of(b).begin());
      return std::pair(*own, *other);
    };
    auto const sorted = scratch.take<std::size_t>(of.size());
    std::iota(sorted.begin(), sorted.end(), std::size_t{0});
    std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
      auto const [of_a, of_b] = first_difference(a, b);
      return precedes(of_a, of_b, a, b);
    });
    auto const equals_last = [&](std::size_t at) {
      auto const [last, own] = first_difference(sorted[at - 1], sorted[at]);
      return last == own;
    };
    for (std::size_t at = 0; at < of.size(); ++at) {
      bool const equal = at > 0 && equals_last(at);
      count += equal ? 0 : 1;
      of[sorted[at]] = count - 1;
      before[sorted[at]] = equal ? sorted[at - 1] : none;
    }
  }

  /// All passes on each stage in turn.
  [[nodiscard]] std::span<time_units const> times_of(std::size_t microbatch) const
  {
    return times.subspan(microbatch * width, width);
  }
};

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
///             last one. The constructor costs as much as step_view.
class order_search {
 public:
  order_search(order_problem const& problem, microbatch_kinds const& kinds,
               workspace::frame& scratch)
      : problem_(problem),
        microbatches_(problem.schedule.microbatches()),
        ranks_(problem.schedule.stages().ranks()),
        path_(scratch.take<microbatch_id>(microbatches_)),
        next_(scratch.take<std::size_t>(microbatches_)),
        is_placed_(scratch.take<bool>(microbatches_)),
        equal_before_(kinds.before),
        ends_(scratch.take<time_units>(problem.schedule.tasks().size())),
        known_(scratch.take<rank_progress>((microbatches_ + 1) * ranks_)),
        bounds_(scratch.take<time_units>(microbatches_ + 1))
  {
    step_view const step(problem.schedule, problem.times, scratch);
    tails_ = step.tails();
    std::fill(is_placed_.begin(), is_placed_.end(), false);
    measure_ranks(step);
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

  void measure_ranks(step_view const& step)
  {
    stage_graph const& stages = problem_.schedule.stages();
    bounds_[0] = problem_.lower_bound;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      known_[rank] = {};
      for (stage_id const stage : stages.stages_on(to_id<pipeline_rank>(rank))) {
        for (pass const each : {pass::forward, pass::backward, pass::weights}) {
          known_[rank].left += step.total(column_of(stage, each));
        }
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

}  // namespace detail

/// Starts from the order of another policy and searches for the best one, until that is proven or
/// `nodes` are used up.
///
/// The default number of nodes is above the 986,409 beginnings of orders of nine microbatches, so
/// up to nine it always finds the best order. Microbatches that take the same times are of one
/// kind, and of those left it tries one: 20 of two kinds have at most 705,430 beginnings, 14 of
/// three 811,732, so these too are always solved. For more it often does not come to its end: the
/// order is then the best that it found, and `local_search` finds better ones sooner.
///
/// Ensures     (1) the makespan is not above that of the inner policy's order
///             (2) where the search came to its end the order is, of all that take the least time,
///                 the first in lexicographic order, whichever the inner policy; and its makespan
///                 is returned
///             (3) up to nine microbatches, 20 of two kinds or 14 of three, it comes to its end
///                 with the default nodes
/// Complexity  the inner policy, and `nodes` microbatches that are put to a position: under 1F1B
///             each takes the tasks of a position or two, under GPipe up to all backwards.
/// Source      branch and bound on permutations with one bound per machine: E. Ignall, L. Schrage,
///             "Application of the Branch and Bound Technique to Some Flow-Shop Scheduling
///             Problems", Operations Research 13(3):400-412, 1965.
template <order_policy Inner = insertion>
struct exact_order {
  [[no_unique_address]] Inner inner{};
  std::uint64_t nodes = std::uint64_t{1} << 20;

  time_units operator()(order_problem const& problem, std::span<microbatch_id> order,
                        workspace& memory) const
  {
    detail::expect_order_of(problem.schedule, order);
    if (order.empty()) { return 0; }
    time_units const proven = detail::run_order_policy(inner, problem, order, memory);
    time_units limit = makespan_of(problem.schedule, problem.times, order, memory) + 1;
    auto scratch = memory.open();
    detail::order_search search(problem, detail::microbatch_kinds(problem, scratch), scratch);
    detail::work_budget budget(nodes);
    return search(order, limit, budget) ? limit : proven;
  }

  friend bool operator==(exact_order const&, exact_order const&) = default;
};

template <class Inner>
exact_order(exact_order<Inner>) -> exact_order<exact_order<Inner>>;  // without it, a copy
template <class Inner>
exact_order(Inner) -> exact_order<Inner>;
template <class Inner>
exact_order(Inner, std::uint64_t) -> exact_order<Inner>;
exact_order() -> exact_order<>;

}  // namespace ballast::inline v0
