// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_REFINE_HPP
#define BALLAST_PARTITION_REFINE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/exchange/exchange_search.hpp>
#include <ballast/partition/detail/inner_plan.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan.hpp>

#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Starts from the plan of another policy, or from longest_processing_time's where that is better,
/// and exchanges samples between bags until the makespan is the lower bound, no exchange helps, or
/// the work is used up.
///
/// With a dozen samples per bag or more it nearly always reaches the bound, which proves the plan
/// optimal: among the 4^k exchanges of k samples of two bags, one moves exactly the work that a bag
/// has too much, and the search finds it in O(2^k) steps. The makespan never grows, so the search
/// can stop at any time.
///
/// Units       work counts steps of the search, each a nanosecond or two; 0 leaves the inner policy's
///             plan as it is. The search begins an exchange while any work is left, and so can do up
///             to 2^18 steps, and a pass along all bags, more than this.
/// Expects     the inner policy does not pad. It may restrict its plans, as equal_count does: then
///             its plan is a start, and what it proves of such plans does not count. Capacities are
///             ignored.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the makespan is not above that of the inner policy's plan and, with any work, of
///                 longest_processing_time's, and it does not grow with work
///             (4) it returns the larger of what the inner policy proves and the lower bound
///             (5) the plan depends on nothing but the arguments
/// Complexity  the inner policy, the bound, O(n + m log m), and O(work).
/// Source      swaps of one for one and two for two, e.g. P. M. Franca et al., "A Composite
///             Heuristic for the Identical Parallel Machine Scheduling Problem with Minimum Makespan
///             Objective", Computers & Operations Research 21(2):205-210, 1994; here all subsets at
///             once, by `detail::find_exchange`; random swaps and descents in turn: H. R. Lourenco,
///             O. C. Martin, T. Stutzle, "Iterated Local Search", Handbook of Metaheuristics, 2003.
template <partition_policy Inner = longest_processing_time>
struct refine {
  static_assert(packed_policy<Inner>,
                "refine exchanges samples of packed bags, and its inner policy pads them: use that "
                "policy by itself");

  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 2'000'000;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    BALLAST_EXPECTS(batching_of(inner) == batching::packed,
                    "refine exchanges samples of packed bags, and its inner policy pads them");
    auto scratch = memory.open();
    if (work == 0) {
      return detail::run_inner_policy(inner, problem, loads, owner, memory, scratch).bound;
    }
    ratio const bound =
        detail::run_inner_policy_or_lpt(inner, problem, loads, owner, memory, scratch).bound;
    if (makespan_of(loads, problem.speeds) <= bound) { return bound; }
    detail::work_budget left(work);
    detail::exchange_search(problem, bound, loads, owner, left, memory, scratch)();
    return bound;
  }

  friend bool operator==(refine const&, refine const&) = default;
};

template <class Inner>
refine(refine<Inner>) -> refine<refine<Inner>>;  // without it, a copy of the inner one
template <class Inner>
refine(Inner) -> refine<Inner>;
template <class Inner>
refine(Inner, std::uint64_t) -> refine<Inner>;
refine() -> refine<>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_REFINE_HPP
