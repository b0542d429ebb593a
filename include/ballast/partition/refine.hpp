// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What `refine` does by one quantity; `is_greedy`: its inner policy is longest_processing_time.
BALLAST_ONCE ratio refine_plan(policy_ref<cost_units> const& inner, bool is_greedy,
                               std::uint64_t work, std::uint64_t nodes,
                               partition_problem const& problem, std::span<cost_units> loads,
                               std::span<bag_id> owner, workspace& memory);

/// And by several.
template <std::size_t D>
ratio refine_plan(policy_ref<cost_vector<D>> const& inner, std::uint64_t work_per_sample,
                  std::uint64_t nodes, cost_vector_problem<D> const& problem,
                  std::span<cost_vector<D>> loads, std::span<bag_id> owner, workspace& memory);

}  // namespace detail

/// Starts from the plan of another policy, or from longest_processing_time's where that is better,
/// and exchanges samples between bags until the makespan is the lower bound, no exchange helps, or
/// the work is used up. Then, with nodes, it tries all plans.
///
/// With a dozen samples per bag or more it nearly always reaches the bound, which proves the plan
/// optimal: among the 4^k exchanges of k samples of two bags, one moves exactly the work that a bag
/// has too much, and the search finds it in O(2^k) steps. The makespan never grows, so the search
/// can stop at any time.
///
/// With few samples per bag, n / m up to 8, exchanges between two bags get stuck, and nodes help:
/// with identical bags they solve most steps of a hundred samples. The search fills bag after bag to
/// decide whether some plan has a makespan of at most T. If there is one, it is the new plan to
/// beat; if not, the bound rises to the next T at which a bag could do one unit more. The first T is
/// the lower bound; then come ever larger ones. A T that used half of what is left of a round stays
/// undecided. The first round has 2^24 nodes, and each further one four times as many. What bag
/// completion leaves open, a linear program over patterns refutes or solves, where costs are up to
/// some thousand. Bags of several speeds or sizes leave less to prune, and where what bags could do
/// by the makespan adds up to 2^63, not all plans are tried.
///
/// Units       work counts steps of the exchanges, each a nanosecond or two; 0 leaves them out, and
///             without nodes the plan is the inner policy's. An exchange begins while any work is
///             left, and so can do up to 2^18 steps, and a pass along all bags, more than this. A
///             node is one sample looked at; 2^24 take half a second.
/// Expects     the inner policy does not pad. Capacities are ignored: the front door goes on from
///             the plan where there are caps.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the makespan is not above that of the inner policy's plan and, with any work or
///                 nodes, of longest_processing_time's; it does not grow with work, and neither it
///                 nor the gap grows with nodes
///             (4) no plan has a makespan below the one returned: the larger of what the inner
///                 policy proves and the lower bound, or, where the search with nodes came to its
///                 end, the plan's own
///             (5) the plan depends on nothing but the arguments
/// Complexity  the inner policy, the bound, O(n + m log m), O(work) and O(nodes).
/// Source      swaps of one for one and two for two, e.g. P. M. Franca et al., "A Composite
///             Heuristic for the Identical Parallel Machine Scheduling Problem with Minimum
///             Makespan Objective", Computers & Operations Research 21(2):205-210, 1994; here all
///             subsets at once, by `detail::find_exchange`; random swaps and descents in turn: H.
///             R. Lourenco, O. C. Martin, T. Stutzle, "Iterated Local Search", Handbook of
///             Metaheuristics, 2003. All plans: `detail::bag_completion`,
///             `detail::column_generation`; the order of T after E. L. Schreiber, R. E. Korf, "Cached
///             Iterative Weakening for Optimal Multi-Way Number Partitioning", AAAI 2014.
///
/// **By several quantities** the bag b that finishes last of all, in dimension d, has to become
/// lighter. The search tries partners from the first to finish in d on. Of all moves of a sample
/// from b and all exchanges of one for one, it makes the one after which the two bags finish
/// earliest, if that is before b does now. Where no partner has one, it tries exchanges of two for
/// two in the same manner. Samples are in order of their costs in d, and what an exchange takes off
/// b is bounded from both sides, so it prices few pairs. Where nothing helps, it makes two to four
/// random exchanges and searches on, and takes back what ends later, as long as there is work. With
/// at most 16 samples it also tries all plans, for about as long. Samples go only where they fit.
/// Another search then lowers the largest load of the dimensions that do not bind, in plans whose
/// makespan is no larger, the next one that of what does not bind there, and so on.
/// With nodes it tries all plans of up to about twenty samples; with more the nodes, here bags
/// looked at, end, and steps of more than 2^14 samples times bags are left out.
///
/// Ensures     (6) those of (1) and (2)
///             (7) the makespan is not above the inner policy's
///             (8) with no work per sample the plan is the inner policy's
///             (9) where the search with nodes came to its end, a second one, as long, looks among
///                  plans of that makespan for one whose next latest dimension finishes earliest,
///                  and so on
/// Complexity  the inner policy, D radix sorts, and the pricing of work_per_sample (n + 100) pairs,
///             each O(D); an exchange moves O(D (m + k)) words for bags of k samples; O(nodes D
///             log m); scratch of (12 + 8 D) D bytes per sample and twice per bag, and about 60 per
///             sample besides.
template <class Inner = longest_processing_time>
struct refine {
  static_assert(!detail::pads_by_type<Inner>(),
                "refine exchanges samples of packed bags, and its inner policy pads them: use that "
                "policy by itself");

  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 2'000'000;
  std::uint64_t work_per_sample = 64;  ///< by several quantities: pairs to look at, per sample
  std::uint64_t nodes = 0;             ///< of the search of all plans

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
    requires partition_policy<Inner>
  {
    return detail::refine_plan(detail::policy_ref<cost_units>(inner), is_greedy, work, nodes,
                               problem, loads, owner, memory);
  }

  template <std::size_t D>
    requires cost_vector_policy<Inner, D>
  ratio operator()(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    return detail::refine_plan<D>(detail::policy_ref<cost_vector<D>>(inner), work_per_sample, nodes,
                                  problem, loads, owner, memory);
  }

  /// How much a search within limits may do; equal counts do not begin with this plan.
  [[nodiscard]] constexpr std::uint64_t work_within_limits() const noexcept
    requires std::same_as<Inner, longest_processing_time>
  {
    return work;
  }

  friend bool operator==(refine const&, refine const&) = default;

 private:
  static constexpr bool is_greedy = std::same_as<Inner, longest_processing_time>;
};

template <class Inner>
refine(refine<Inner>) -> refine<refine<Inner>>;  // without it, a copy of the inner one
template <class Inner>
refine(Inner) -> refine<Inner>;
template <class Inner>
refine(Inner, std::uint64_t) -> refine<Inner>;
template <class Inner>
refine(Inner, std::uint64_t, std::uint64_t) -> refine<Inner>;
template <class Inner>
refine(Inner, std::uint64_t, std::uint64_t, std::uint64_t) -> refine<Inner>;
refine() -> refine<>;

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/partition/detail/refine_plan.hpp>
#endif
