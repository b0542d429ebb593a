// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_CAPPED_HPP
#define BALLAST_PARTITION_CAPPED_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/capacity_bound.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/capacity/capped_exchanges.hpp>
#include <ballast/partition/detail/capacity/place_within_capacity.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/lower_bound.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Another policy's plan where it keeps to the capacities, and otherwise a plan that does: no bag
/// gets more than its memory holds.
///
/// The inner policy plans without capacities. Bags that it overran give away weight, with as little
/// work as possible. If the others have no room for that, new plans are made from nothing: by work,
/// by weight, and at last by a search of all fillings. Then exchanges within the capacities even out
/// the work.
///
/// The plan of an inner policy that restricts plans or pads is not changed, since moves would break
/// what that policy promises: the front door refuses it where it overruns. Without capacities this
/// is the inner policy.
///
/// Ensures     (1) every sample that found room has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) no bag weighs more than its capacity
///             (4) if a plan that keeps to the capacities exists and the search of all fillings ends
///                 within `work`, all samples have a bag; otherwise some may have none, and the
///                 front door says how many bags are needed
///             (5) no plan has a makespan below the one returned
/// Complexity  the inner policy; where it overruns, O(n (m + log n) + work).
template <partition_policy Inner = longest_processing_time>
struct capped {
  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 300'000;  ///< how many samples and sums each search looks at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    partition_problem without_limits = problem;
    without_limits.weights = {};
    without_limits.capacities = {};
    ratio const proven = run_policy(inner, without_limits, loads, owner, memory);
    if (problem.capacities.empty() || restricts() || batches() == batching::padded) {
      return proven;
    }
    detail::bags_with_room const bags(problem, loads, owner, scratch);
    if (!bags.any_overrun()) { return proven; }
    detail::work_budget nodes(work);
    if (!detail::place_within_capacity(problem, bags, starts, owner, nodes, memory)) {
      return proven;
    }
    ratio const bound = std::max({proven, with_lower_bound(problem, starts, memory).lower_bound,
                                  detail::capacity_bound(problem, memory)});
    detail::work_budget left(work);
    detail::capped_exchanges plan(problem, loads, owner, bags.held(), left, memory, scratch);
    detail::settle_latest(plan, bound, scratch)();
    return bound;
  }

  [[nodiscard]] constexpr bool restricts() const { return restricts_plans(inner); }
  [[nodiscard]] constexpr batching batches() const { return batching_of(inner); }

  friend bool operator==(capped const&, capped const&) = default;
};

template <class Inner>
capped(Inner) -> capped<Inner>;
template <class Inner>
capped(Inner, std::uint64_t) -> capped<Inner>;
capped() -> capped<>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_CAPPED_HPP
