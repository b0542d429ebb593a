// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_LOCAL_SEARCH_HPP
#define BALLAST_PIPELINE_LOCAL_SEARCH_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/ascending_order.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/order_search.hpp>
#include <ballast/pipeline/detail/orders/order_walkers.hpp>
#include <ballast/pipeline/insertion.hpp>
#include <ballast/pipeline/interval_filling.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// Writes an order that rises to the longest microbatch and falls again: of an ascending order each
/// `every`-th goes to the end, the first of them last, and the others to the beginning.
///
/// A pipeline fills with short microbatches and drains with short ones, and the more ranks it has,
/// the more of them it needs at both ends.
///
/// Expects     `ascending` and `order` are of one length and do not overlap; every > 0
inline void rise_and_fall(std::span<microbatch_id const> ascending, std::span<microbatch_id> order,
                          std::size_t every)
{
  std::size_t rising = 0;
  std::size_t falling = order.size();
  for (std::size_t each = 0; each < ascending.size(); ++each) {
    order[(each + 1) % every == 0 ? --falling : rising++] = ascending[each];
  }
}

/// Whether of at least three quarters of all pairs of microbatches one is nowhere longer than the
/// other, as where one length says how long a microbatch takes on every stage. Where lengths of
/// several modalities vary independently, half of the pairs or fewer are such.
///
/// Ensures     (1) what a stage without backward has as backward does not count
///             (2) microbatches that are all equal, or fewer than two, are ranked
/// Complexity  O(l^2 x stages) for l microbatches.
[[nodiscard]] inline bool mostly_ranked(order_problem const& problem)
{
  stage_graph const& stages = problem.schedule.stages();
  auto const nowhere_longer = [&](std::span<stage_time const> a, std::span<stage_time const> b) {
    for (std::size_t stage = 0; stage < a.size(); ++stage) {
      if (a[stage].forward > b[stage].forward) { return false; }
      bool const trained = stages[to_id<stage_id>(stage)].backward;
      if (trained && a[stage].backward > b[stage].backward) { return false; }
    }
    return true;
  };
  std::size_t const count = problem.schedule.microbatches();
  std::size_t unranked = 0;
  for (std::size_t second = 1; second < count; ++second) {
    auto const b = problem.times[to_id<microbatch_id>(second)];
    for (std::size_t first = 0; first < second; ++first) {
      auto const a = problem.times[to_id<microbatch_id>(first)];
      unranked += nowhere_longer(a, b) || nowhere_longer(b, a) ? 0U : 1U;
    }
  }
  return count < 2 || unranked * 4 <= count * (count - 1) / 2;
}

}  // namespace detail

/// Improves the order of another policy by threshold accepting: eight searches, which start from
/// different orders, try moves and go on with those that are not worse by more than a random
/// threshold, which falls with time. The worse searches end on the way.
///
/// The first searches start from the given order, that of `inner`, the ascending and the descending
/// one, that of interval filling, two that rise and fall, and a random one. Where there are
/// evaluations for more, further ones follow from random orders. A search of l microbatches is long
/// with 16 l^2 evaluations, or with 8 l^2 where they are mostly ranked: where three of four pairs,
/// or more, have one that takes no longer than the other on any stage. With so many times that many
/// evaluations there are as many runs as the square root of it, rounded down, since one search of
/// twice the length finds better orders than two, up to a point. Where kinds have eight
/// microbatches or more on average, a search soon finds what it can find, and there are at least
/// twelve runs, or as many as can have 4 l^2 evaluations. Where there are neither few kinds nor
/// ranks, the last of several runs starts from the best order so far, with thresholds a fourth as
/// high.
///
/// With less than 48 l^2, or with less than 4 l^2 where microbatches are mostly ranked, only four
/// searches walk, from the best four of the eight orders. All end at the lower bound or when the
/// evaluations are used up. Where all microbatches are equal there is nothing to try. Where orders
/// have no more beginnings than there are evaluations, all are searched instead: with the default,
/// those of up to eight microbatches.
///
/// Ensures     (1) the order takes no longer than the given one and than that of `inner`
///             (2) it is the same for the same seed on every machine, with SIMD and without
///             (3) no more than `evaluations` orders are evaluated, beside these two and those that
///                 `inner` evaluates
///             (4) what is proven is returned: where all orders are searched the time of the order,
///                 which is the best, and otherwise what `inner` has proven
/// Complexity  O(evaluations x tasks), of which order_evaluator does sixteen at a time, and
///             O(l^2 x stages).
/// Source      G. Dueck, T. Scheuer, "Threshold accepting: a general purpose optimization algorithm
///             appearing superior to simulated annealing", Journal of Computational Physics 90(1),
///             1990. Random thresholds make it S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi,
///             "Optimization by Simulated Annealing", Science 220(4598):671-680, 1983. The searches
///             side by side and all constants are ours.
template <order_policy Inner = insertion>
struct local_search {
  [[no_unique_address]] Inner inner{};
  std::uint64_t evaluations = 192'000;
  std::uint64_t seed = 1;

  time_units operator()(order_problem const& problem, std::span<microbatch_id> order,
                        workspace& memory) const
  {
    std::size_t const count = order.size();
    auto scratch = memory.open();
    std::span<microbatch_id> const given = scratch.take<microbatch_id>(count);
    std::span<microbatch_id> const inners = scratch.take<microbatch_id>(count);
    std::copy(order.begin(), order.end(), given.begin());
    std::copy(order.begin(), order.end(), inners.begin());
    time_units const proven = detail::run_order_policy(inner, problem, inners, memory);
    if (count < 2) { return proven; }

    time_units best = makespan_of(problem.schedule, problem.times, order, memory);
    time_units const of_inner = makespan_of(problem.schedule, problem.times, inners, memory);
    if (of_inner < best) {
      best = of_inner;
      std::copy(inners.begin(), inners.end(), order.begin());
    }
    detail::work_budget budget(evaluations);
    if (searches_all(count)) {
      detail::order_search search(problem, scratch);
      if (search(order, best, budget)) { return best; }
    }
    detail::order_walkers walkers(problem, std::max(problem.lower_bound, proven), order, best,
                                  scratch);
    if (walkers.kinds() < 2) { return proven; }
    random_source random(seed);
    bool const few_kinds = walkers.kinds() <= count / 8;
    bool const ranked = detail::mostly_ranked(problem);
    std::uint64_t const runs = runs_of(count, few_kinds, ranked);
    std::size_t const started =
        evaluations / (count * count) >= (ranked ? 4 : 48) ? walkers.most : walkers.most / 2;
    for (std::uint64_t run = 0; run < runs && !walkers.ended(budget); ++run) {
      bool const refines = !few_kinds && !ranked && run > 0 && run + 1 == runs;
      for (std::size_t each = 0; each < walkers.most; ++each) {
        std::span<microbatch_id const> const from = refines ? walkers.best() : given;
        std::copy(from.begin(), from.end(), walkers.start(each).begin());
        if (!refines && (run > 0 || each > 6)) { random.shuffle(walkers.start(each)); }
      }
      if (run == 0) {
        std::copy(inners.begin(), inners.end(), walkers.start(1).begin());
        ascending_order{}(problem, walkers.start(2), memory);
        std::copy(walkers.start(2).rbegin(), walkers.start(2).rend(), walkers.start(3).begin());
        interval_filling{}(problem, walkers.start(4), memory);
        detail::rise_and_fall(walkers.start(2), walkers.start(5), 2);
        detail::rise_and_fall(walkers.start(2), walkers.start(6), 4);
      }
      detail::walk_cooling cooling = cooling_of(count, few_kinds, ranked);
      if (refines) { cooling.start *= 4; }
      walkers.run(started, cooling, budget.left() / (runs - run), random, budget);
    }
    return proven;
  }

  friend bool operator==(local_search const&, local_search const&) = default;

 private:
  // Whether orders of so many microbatches have no more beginnings than there are evaluations.
  [[nodiscard]] constexpr bool searches_all(std::uint64_t count) const
  {
    std::uint64_t beginnings = 0;
    for (std::uint64_t each = 1; each <= count && beginnings <= evaluations; ++each) {
      beginnings = each * (beginnings + 1);
    }
    return beginnings <= evaluations;
  }

  // How many runs of eight searches, one after the other.
  [[nodiscard]] constexpr std::uint64_t runs_of(std::uint64_t count, bool few_kinds,
                                                bool ranked) const
  {
    std::uint64_t const squares = evaluations / (count * count);
    std::uint64_t runs = 1;
    while ((runs + 1) * (runs + 1) <= squares / (ranked ? 8 : 16)) { ++runs; }
    return few_kinds ? std::max(runs, std::min<std::uint64_t>(12, squares / 4)) : runs;
  }

  // Of few kinds or ranked, the starts are good already, and a hot search only forgets them. With
  // few microbatches a run soon tries all moves, whatever the threshold.
  [[nodiscard]] static constexpr detail::walk_cooling cooling_of(std::size_t count, bool few_kinds,
                                                                 bool ranked)
  {
    bool const small = count < 24;
    if (few_kinds) { return {8, 7, false}; }
    if (ranked) { return {12, small ? 4U : 6U, false}; }
    return small ? detail::walk_cooling{6, 1} : detail::walk_cooling{4, 4};
  }
};

local_search() -> local_search<>;
template <class Inner>
local_search(local_search<Inner>) -> local_search<local_search<Inner>>;  // without it, a copy
template <class Inner>
local_search(Inner) -> local_search<Inner>;
template <class Inner>
local_search(Inner, std::uint64_t) -> local_search<Inner>;
template <class Inner>
local_search(Inner, std::uint64_t, std::uint64_t) -> local_search<Inner>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_LOCAL_SEARCH_HPP
