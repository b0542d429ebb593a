// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_REFINE_HPP
#define BALLAST_PARTITION_REFINE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/detail/exchange/relieve_worst.hpp>
#include <ballast/partition/detail/exchange/settle_bags.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/lower_bound.hpp>
#include <ballast/partition/makespan.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Starts from the plan of another policy and exchanges samples between two bags at a time, until
/// the makespan is the lower bound, no exchange helps, or the work is used up.
///
/// With a dozen samples per bag or more the bound is reached nearly always, and the plan is thereby
/// proven optimal: among the 4^k exchanges of k samples of two bags some has exactly the net work
/// that one of them needs, and it is found in O(2^k). The makespan only ever shrinks, so that the
/// plan is a good one wherever the work ends.
///
/// Units       work counts elementary steps of the search, each a nanosecond or two; 0 leaves the
///             plan as it is. Exchanges are begun while any is left, so the count can end above it
///             by those of one: below 2^18, and a look along two bags.
/// Expects     the inner policy neither restricts plans nor pads. Capacities are not looked at.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the makespan is not above that of the inner policy's plan
///             (4) the answer is the larger of the inner policy's and makespan_lower_bound's
///             (5) the plan depends on nothing but the arguments
/// Complexity  the inner policy, the bound, O(n + m log m), and O(work).
/// Source      exchanges as one-to-one and two-for-two swaps have them, e.g. P. M. Franca et al.,
///             "A Composite Heuristic for the Identical Parallel Machine Scheduling Problem with
///             Minimum Makespan Objective", Computers & Operations Research 21(2):205-210, 1994;
///             all subsets at once by `detail::find_exchange`.
template <partition_policy Inner = longest_processing_time>
struct refine {
  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 2'000'000;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    BALLAST_EXPECTS(!restricts_plans(inner) && batching_of(inner) == batching::packed);
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::ranges::copy(loads, starts.begin());
    ratio const proven = place(inner, problem, loads, owner, memory);
    ratio const bound = std::max(proven, makespan_lower_bound(problem, memory, starts));

    if (makespan_of(loads, problem.speeds) <= bound || work == 0) { return bound; }
    detail::bag_exchanges plan(problem, loads, owner, work, memory, scratch);
    bool const settled = detail::settle_bags(plan, bound, scratch)();
    if (!settled) { detail::relieve_worst(plan, bound)(); }
    return bound;
  }

  friend bool operator==(refine const&, refine const&) = default;
};

template <class Inner>
refine(Inner) -> refine<Inner>;
template <class Inner>
refine(Inner, std::uint64_t) -> refine<Inner>;
refine() -> refine<>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_REFINE_HPP
