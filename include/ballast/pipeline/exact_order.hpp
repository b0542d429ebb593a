// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_EXACT_ORDER_HPP
#define BALLAST_PIPELINE_EXACT_ORDER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/order_search.hpp>
#include <ballast/pipeline/insertion.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cstdint>
#include <span>

namespace ballast::inline v0 {

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
/// Complexity  the inner policy, and what `nodes` of detail::order_search take: under 1F1B the
///             tasks of a position or two each, under GPipe up to all backwards.
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
    BALLAST_EXPECTS(order.size() == problem.schedule.microbatches(), "an order of ",
                    detail::counted(order.size(), "microbatch"), " was given for a schedule of ",
                    problem.schedule.microbatches());
    if (order.empty()) { return 0; }
    time_units const proven = detail::run_order_policy(inner, problem, order, memory);
    time_units limit = makespan_of(problem.schedule, problem.times, order, memory) + 1;
    auto scratch = memory.open();
    detail::order_search search(problem, scratch);
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

#endif  // BALLAST_PIPELINE_EXACT_ORDER_HPP
