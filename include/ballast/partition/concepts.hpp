// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_CONCEPTS_HPP
#define BALLAST_PARTITION_CONCEPTS_HPP

#include <ballast/core/descending_order.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>

#include <concepts>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// What every partition policy is given: n samples to place in m bags.
///
/// `partition()` builds it and checks all of this; whoever calls a policy directly vouches for it.
///
/// Shapes      costs[n], lengths[n], heaviest_first[n], gpus[m]; m >= 1.
/// Units       costs in the cost model's unit; a bag of G GPUs does its work G times as fast as
///             one.
/// Expects     (a) costs are not negative and add up to less than 2^63, starting loads included
///             (b) heaviest_first is `descending_order` of the costs
///             (c) every sample fits at least one bag, in the sense of `fits`
struct partition_problem {
  std::span<cost_units const> costs;
  std::span<tokens const> lengths;
  std::span<priced_sample const> heaviest_first;
  std::span<std::uint32_t const> gpus;

  /// A bag splits its sequences over its GPUs and no GPU may get an empty chunk, so a sequence with
  /// fewer tokens than GPUs stays out. A sequence of no tokens has no chunks and fits everywhere.
  [[nodiscard]] static constexpr bool fits(tokens length, std::uint32_t gpus) noexcept
  {
    return length == 0 || length >= static_cast<tokens>(gpus);
  }
};

/// Decides which bag owns each sample.
///
/// In, out     loads[m] enters as work that each bag already has and leaves as the total.
///             owner[n] leaves with one bag per sample, and the sample fits it.
///             memory is scratch that the policy gives back.
/// A policy is a value: regular, usually without state, parameters as public members.
template <class P>
concept partition_policy =
    std::regular<P> &&
    requires(P const policy, partition_problem const& problem, std::span<cost_units> loads,
             std::span<bag_id> owner, workspace& memory) {
      { policy(problem, loads, owner, memory) } -> std::same_as<void>;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_CONCEPTS_HPP
