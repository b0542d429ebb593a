// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_EXACT_HPP
#define BALLAST_PARTITION_EXACT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/units.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/search/makespan_search.hpp>
#include <ballast/partition/lower_bound.hpp>
#include <ballast/partition/refine.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Starts from the plan of another policy and searches for the best one, until that is proven or
/// `nodes` are used up.
///
/// Whether some plan has a makespan of at most T is decided by filling bag after bag. A plan that
/// is found is the new one to beat; a T that no plan keeps to raises the bound to the next T at
/// which a bag could do one unit more. The first T asked is the lower bound, which with more than a
/// few samples per bag is nearly always the optimum, then ever larger ones. A question that takes
/// half of the nodes left stays open, and what is between it and the plan is asked next.
///
/// It is meant for few samples per bag, n / m up to 8, where exchanges between two bags get stuck:
/// with alike bags it settles most steps of a hundred samples. Bags of several speeds or sizes
/// leave less to be pruned. Samples with capacities to keep are left where the inner policy put
/// them, and so are all where what bags could do by the makespan adds up to 2^63.
///
/// Expects     the inner policy neither restricts plans nor pads.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the makespan is not above that of the inner policy's plan
///             (4) no plan has a makespan below the answer, which is the plan's makespan where the
///                 search came to its end
/// Complexity  the inner policy and O(nodes); a node is a look at one sample.
/// Source      `detail::bag_completion`; asking for T in this order after E. L. Schreiber, R. E.
///             Korf, "Cached Iterative Weakening for Optimal Multi-Way Number Partitioning", AAAI
///             2014.
template <partition_policy Inner = refine<>>
struct exact {
  [[no_unique_address]] Inner inner{};
  std::uint64_t nodes = std::uint64_t{1} << 24;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    BALLAST_EXPECTS(!restricts_plans(inner) && batching_of(inner) == batching::packed);
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::ranges::copy(loads, starts.begin());
    ratio const proven = place(inner, problem, loads, owner, memory);
    ratio const bound = std::max(proven, makespan_lower_bound(problem, memory, starts));
    if (!problem.capacities.empty()) { return bound; }
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    return detail::makespan_search(problem, starts, scratch)(
        bound, static_cast<std::int64_t>(std::min(nodes, most)), loads, owner);
  }

  friend bool operator==(exact const&, exact const&) = default;
};

template <class Inner>
exact(Inner) -> exact<Inner>;
template <class Inner>
exact(Inner, std::uint64_t) -> exact<Inner>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_EXACT_HPP
