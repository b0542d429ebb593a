// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0 {

/// Which bags a sample may go to: those with room left for it, as in KnapFormer's paper, or those
/// that could hold it when empty, as in its public code.
enum class knapsack_capacity : std::uint8_t { remaining, full };

/// KnapFormer's balancer: every bag is a knapsack with room for its share of the step's work.
///
/// The capacity of a bag is its speed times the mean work per speed; where all GPUs are equally
/// fast, its speed is its number of GPUs. Samples go heaviest first, each to the least occupied
/// (load / capacity) of the bags that it fits and that have capacity for it. A sample that no bag
/// has capacity for goes to the least occupied of the largest bags that it fits.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) the plan is that of the list-sorting planner of the paper, with equal costs in
///                 sample order and equal occupancy to the smaller, then to the lower-numbered bag
/// Complexity  O(n (kinds + log m)) after the sort that the problem brings; the public planner,
///             which sorts all bags for every sample, takes O(n m log m).
/// Source      K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
///             Transformers Training", arXiv 2508.06001, 2025, section on sequence assignment.
struct greedy_knapsack {
  knapsack_capacity capacity = knapsack_capacity::remaining;

  BALLAST_ONCE void operator()(partition_problem const& problem, std::span<cost_units> loads,
                               std::span<bag_id> owner, workspace& memory) const;

  friend bool operator==(greedy_knapsack, greedy_knapsack) = default;
};

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

#include <ballast/partition/detail/greedy/longest_first.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Capacity is proportional to speed, so load per speed orders bags as load per capacity does.
[[nodiscard]] inline ratio occupancy(identical_bags const& kind) noexcept
{
  return {kind.lightest().load, kind.speed};
}

}  // namespace detail

BALLAST_ONCE void greedy_knapsack::operator()(partition_problem const& problem,
                                              std::span<cost_units> loads, std::span<bag_id> owner,
                                              workspace& memory) const
{
  detail::expect_policy_arrays(problem, loads, owner);
  std::uint64_t total = 0;  // the mean is total / speed; nothing is divided, so nothing rounds
  std::uint64_t all_speeds = 0;
  for (cost_units const load : loads) { total += static_cast<std::uint64_t>(load); }
  for (cost_units const cost : problem.costs) { total += static_cast<std::uint64_t>(cost); }
  for (std::uint32_t const speed : problem.speeds) { all_speeds += speed; }

  auto scratch = memory.open();
  detail::lightest_bags const bags(problem, loads, scratch);
  for (auto const [cost, sample] : problem.heaviest_first) {
    detail::identical_bags* best = nullptr;
    detail::identical_bags* largest = nullptr;
    for (detail::identical_bags& kind : bags.kinds()) {
      // The smallest bags take every sample, so lengths are looked up only where sizes differ.
      if (largest != nullptr &&
          !partition_problem::splits(problem.lengths[to_index(sample)], kind.gpus)) {
        break;
      }
      if (largest == nullptr || kind.gpus > largest->gpus ||
          detail::occupancy(kind) < detail::occupancy(*largest)) {
        largest = &kind;
      }
      cost_units const before = capacity == knapsack_capacity::full ? 0 : kind.lightest().load;
      auto const filled = static_cast<std::uint64_t>(before) + static_cast<std::uint64_t>(cost);
      bool const has_room = uint128{filled} * all_speeds <= uint128{total} * kind.speed;
      if (has_room && (best == nullptr || detail::occupancy(kind) < detail::occupancy(*best))) {
        best = &kind;
      }
    }
    if (best == nullptr) { best = largest; }
    owner[to_index(sample)] = to_id<bag_id>(best->lightest().index);
    best->add_to_lightest(cost);
  }
  bags.store(loads);
}

}  // namespace ballast::inline v0

#endif
