// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_CAPPED_HPP
#define BALLAST_PARTITION_CAPPED_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/capacity_bound.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/capacity/capped_exchanges.hpp>
#include <ballast/partition/detail/capacity/place_within_capacity.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/lower_bound.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0 {

/// Another policy's plan where it keeps to the capacities, and otherwise one that does: what memory
/// holds is never overrun.
///
/// The inner policy plans without capacities. Bags that it overran shed weight with as little work
/// as possible; if that finds no room, plans are made from nothing, by work and by weight, and at
/// last by a search of all fillings. Then exchanges within the capacities even the work out.
///
/// An inner policy that restricts plans or pads is left alone, since moves would break what it
/// keeps to: its plan is refused where it overruns. Without capacities this is the inner policy.
///
/// Ensures     (1) every sample that found room has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) no bag weighs more than its capacity
///             (4) all samples have a bag where the search of all fillings ends within `work`, and a
///                 plan that keeps to the capacities exists; others have none, and the front door
///                 says how many bags are needed
///             (5) no plan has a makespan below the answer
/// Complexity  the inner policy; where it overruns, O(n (m + log n) + work).
template <partition_policy Inner = longest_processing_time>
struct capped {
  [[no_unique_address]] Inner inner{};
  std::uint64_t work = 300'000;  ///< how many samples and sums each search may look at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::ranges::copy(loads, starts.begin());
    partition_problem without_limits = problem;
    without_limits.weights = {};
    without_limits.capacities = {};
    ratio const proven = place(inner, without_limits, loads, owner, memory);
    if (problem.capacities.empty() || restricts() || batches() == batching::padded) {
      return proven;
    }
    detail::bags_with_room const bags(problem, loads, owner, scratch);
    if (!bags.any_overrun()) { return proven; }
    auto const nodes = static_cast<std::int64_t>(
        std::min(work, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
    if (!detail::place_within_capacity(problem, bags, starts, owner, nodes, memory)) {
      return proven;
    }
    ratio const bound = std::max(
        {proven, makespan_lower_bound(problem, memory, starts), capacity_bound(problem, memory)});
    std::uint64_t left = work;
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
