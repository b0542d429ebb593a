// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_REFINE_HPP
#define BALLAST_PARTITION_REFINE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/exchange/exchange_search.hpp>
#include <ballast/partition/detail/inner_plan.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/detail/rules/plan_by_rules.hpp>
#include <ballast/partition/detail/vectors/refine_vectors.hpp>
#include <ballast/partition/detail/vectors/settle_others.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan.hpp>

#include <algorithm>
#include <cstddef>
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
/// Units       work counts steps of the search, each a nanosecond or two; 0 leaves the inner
///             policy's plan as it is. The search begins an exchange while any work is left, and so
///             can do up to 2^18 steps, and a pass along all bags, more than this.
/// Expects     the inner policy does not pad, nor restrict its plans, as equal_count does, nor keep
///             homes, as least_movement does: both do their own exchanges. Capacities are ignored
///             where there are no rules; with rules `detail::rule_search` keeps both, and the inner
///             policy plays no part.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the makespan is not above that of the inner policy's plan and, with any work, of
///                 longest_processing_time's, and it does not grow with work
///             (4) it returns the larger of what the inner policy proves and the lower bound
///             (5) the plan depends on nothing but the arguments
/// Complexity  the inner policy, the bound, O(n + m log m), and O(work).
/// Source      swaps of one for one and two for two, e.g. P. M. Franca et al., "A Composite
///             Heuristic for the Identical Parallel Machine Scheduling Problem with Minimum
///             Makespan Objective", Computers & Operations Research 21(2):205-210, 1994; here all
///             subsets at once, by `detail::find_exchange`; random swaps and descents in turn: H.
///             R. Lourenco, O. C. Martin, T. Stutzle, "Iterated Local Search", Handbook of
///             Metaheuristics, 2003.
///
/// **By several quantities** the bag b that finishes last of all, in dimension d, has to become
/// lighter. The search tries partners from the first to finish in d on. Of all moves of a sample
/// from b and all exchanges of one for one, it makes the one after which the two bags finish
/// earliest, if that is before b does now. Where no partner has one, it tries exchanges of two for
/// two in the same manner. Samples are in order of their costs in d, and what an exchange takes off
/// b is bounded from both sides, so it prices few pairs. Where nothing helps, it makes two to four
/// random exchanges and searches on, and takes back what ends later, as long as there is work. With
/// at most 16 samples it also tries all plans, as `exact` does, for about as long.
/// Samples go only where they fit and where there is room, and a plan that overruns capacities is
/// made anew. Another search then lowers the largest load of the dimensions that do not bind, in
/// plans whose makespan is no larger, the next one that of what does not bind there, and so on.
///
/// Ensures     (6) every sample that found room has one bag, which it fits, and loads have changed
///                 as the owners have
///             (7) the makespan is not above the inner policy's, if that plan keeps to the
///                 capacities
///             (8) with no work per sample the plan is the inner policy's, if it keeps to them
///             (9) no bag weighs more than its capacity
/// Complexity  the inner policy, D radix sorts, and the pricing of work_per_sample (n + 100) pairs,
///             each O(D), with capacities up to 4 D + 2 times and O(D n m) for each start; an
///             exchange moves O(D (m + k)) words for bags of k samples; scratch of (16 + 8 D) D
///             bytes per sample and twice per bag.
template <class Inner = longest_processing_time>
struct refine {
  static_assert(!detail::plan_kind_of<Inner>.pads,
                "refine exchanges samples of packed bags, and its inner policy pads them: use that "
                "policy by itself");
  static_assert(detail::is_free_policy<Inner>,
                "refine exchanges samples, and its inner policy keeps counts or homes that would "
                "be lost: use that policy by itself, or around, as in least_movement{refine{}}");

  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 2'000'000;
  std::uint64_t work_per_sample = 64;  ///< by several quantities: pairs to look at, per sample

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
    requires partition_policy<Inner>
  {
    BALLAST_EXPECTS(detail::plans_are_free(inner),
                    "refine exchanges samples of packed bags, and its inner policy pads them, or "
                    "keeps counts or homes");
    if (problem.rules != nullptr) {
      return detail::plan_by_rules(problem, loads, owner, work, memory);
    }
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

  template <std::size_t D>
    requires cost_vector_policy<Inner, D>
  ratio operator()(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays<D>(problem, loads, owner);
    auto scratch = memory.open();
    std::span<cost_vector<D>> const starts = scratch.take<cost_vector<D>>(loads.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    ratio const proven = run_policy(inner, problem, loads, owner, memory);
    ratio const found =
        detail::refine_vectors<D>(problem, starts, loads, owner, work_per_sample, memory);
    if (D > 1 && work_per_sample > 0 &&
        (problem.capacities.empty() || detail::keeps_to_capacities<D>(problem, owner, memory))) {
      detail::settle_others<D>(problem, starts, loads, owner, work_per_sample, memory);
    }
    return std::max(proven, found);
  }

  [[nodiscard]] static constexpr bool keeps_rules() noexcept { return true; }

  friend bool operator==(refine const&, refine const&) = default;
};

template <class Inner>
refine(refine<Inner>) -> refine<refine<Inner>>;  // without it, a copy of the inner one
template <class Inner>
refine(Inner) -> refine<Inner>;
template <class Inner>
refine(Inner, std::uint64_t) -> refine<Inner>;
template <class Inner>
refine(Inner, std::uint64_t, std::uint64_t) -> refine<Inner>;
refine() -> refine<>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_REFINE_HPP
