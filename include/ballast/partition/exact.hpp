// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_EXACT_HPP
#define BALLAST_PARTITION_EXACT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/inner_plan.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/detail/search/makespan_search.hpp>
#include <ballast/partition/detail/vectors/enumerate_vectors.hpp>
#include <ballast/partition/detail/vectors/place_vectors_within_capacity.hpp>
#include <ballast/partition/refine.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Starts from the plan of another policy, or from longest_processing_time's where that is better,
/// and searches for the best one, until that is proven or `nodes` are used up.
///
/// It fills bag after bag to decide whether some plan has a makespan of at most T. If there is one,
/// it is the new plan to beat; if not, the bound rises to the next T at which a bag could do one
/// unit more. The first T is the lower bound, which is nearly always the optimum where bags hold
/// more than a few samples; then come ever larger ones. A T that used half of what is left of a
/// round stays undecided, and the search goes on between it and the plan. The first round has 2^24
/// nodes, and each further one four times as many.
///
/// It is meant for few samples per bag, n / m up to 8, where exchanges between two bags get stuck:
/// with identical bags it solves most steps of a hundred samples. What bag completion leaves open,
/// a linear program over patterns refutes or solves, where costs are up to some thousand. Bags of
/// several speeds or sizes leave less to prune. The inner policy's plan stays as it is where there
/// are capacities, and where what bags could do by the makespan adds up to 2^63.
///
/// Expects     the inner policy does not pad, nor restrict its plans, as equal_count does, nor keep
///             homes, as least_movement does.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the makespan is not above that of the inner policy's plan, and neither it nor
///                 the gap grows with nodes
///             (4) no plan has a makespan below the one returned, which is the plan's makespan
///                 where the search came to its end
/// Complexity  the inner policy and O(nodes); a node is one sample looked at.
/// Source      `detail::bag_completion`, `detail::column_generation`; the order of T after E. L.
///             Schreiber, R. E. Korf, "Cached Iterative Weakening for Optimal Multi-Way Number
///             Partitioning", AAAI 2014.
///
/// **By several quantities** it tries all plans, and is meant for up to about twenty samples; with
/// more the nodes end, and the plan is nearly always the inner policy's. Steps of more than 2^14
/// samples times bags keep the inner policy's plan.
///
/// Ensures     (5) every sample that found room has one bag, which it fits, and no bag weighs more
///                 than its capacity; (2), and (3) if the inner policy's plan keeps to the
///                 capacities
///             (6) no plan has a makespan below the one returned, which is the plan's where the
///                 search came to its end; then a second search, as long, looks among plans of that
///                 makespan for one whose next latest dimension finishes earliest, and so on
/// Complexity  the inner policy and O(vector_nodes D log m); 4 bytes of scratch per sample and bag.
template <class Inner = refine<>>
struct exact {
  static_assert(!detail::plan_kind_of<Inner>.pads,
                "exact searches packed bags, and its inner policy pads them: use that policy by "
                "itself");
  static_assert(detail::is_free_policy<Inner>,
                "exact searches all plans, and its inner policy keeps counts or homes that would "
                "be lost: use that policy by itself, or around, as in least_movement{exact{}}");

  [[no_unique_address]] Inner inner{};
  std::uint64_t nodes = std::uint64_t{1} << 24;
  std::uint64_t vector_nodes = std::uint64_t{1} << 16;  ///< by several quantities: bags looked at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
    requires partition_policy<Inner>
  {
    BALLAST_EXPECTS(
        detail::plans_are_free(inner),
        "exact searches packed bags, and its inner policy pads them, or keeps counts or homes");
    auto scratch = memory.open();
    if (nodes == 0 || !problem.capacities.empty()) {
      return detail::run_inner_policy(inner, problem, loads, owner, memory, scratch).bound;
    }
    auto const [starts, bound] =
        detail::run_inner_policy_or_lpt(inner, problem, loads, owner, memory, scratch);
    detail::work_budget left(nodes);
    return detail::makespan_search(problem, starts, scratch)(bound, left, loads, owner);
  }

  template <std::size_t D>
    requires cost_vector_policy<Inner, D>
  ratio operator()(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    constexpr std::size_t most_choices = std::size_t{1} << 14;
    detail::expect_policy_arrays<D>(problem, loads, owner);
    auto scratch = memory.open();
    bool const searched =
        vector_nodes > 0 && !owner.empty() && owner.size() <= most_choices / loads.size();
    std::span<cost_vector<D>> const starts =
        scratch.take<cost_vector<D>>(searched ? loads.size() : 0);
    std::copy_n(loads.begin(), starts.size(), starts.begin());
    ratio const proven = run_policy(inner, problem, loads, owner, memory);
    if (!searched ||
        (!problem.capacities.empty() && !detail::keeps_to_capacities<D>(problem, owner, memory))) {
      return proven;
    }
    return std::max(
        proven, detail::enumerate_vectors<D>(problem, starts, loads, owner, vector_nodes, memory));
  }

  friend bool operator==(exact const&, exact const&) = default;
};

template <class Inner>
exact(exact<Inner>) -> exact<exact<Inner>>;  // without it, a copy of the inner one
template <class Inner>
exact(Inner) -> exact<Inner>;
template <class Inner>
exact(Inner, std::uint64_t) -> exact<Inner>;
template <class Inner>
exact(Inner, std::uint64_t, std::uint64_t) -> exact<Inner>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_EXACT_HPP
