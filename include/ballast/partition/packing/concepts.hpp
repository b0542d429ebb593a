// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_CONCEPTS_HPP
#define BALLAST_PARTITION_PACKING_CONCEPTS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// The input of every packing policy: n samples to put into as few bins of one capacity as it can.
///
/// `pack_to_capacity()` builds it and checks what is expected here. A caller that runs a policy
/// directly has to keep to it.
///
/// Shapes      weights[n], heaviest_first[n].
/// Units       weights and capacity share one unit: tokens, or bytes of memory.
/// Expects     (a) weights are not negative, none is above capacity, and they add up to less than
///                 2^63
///             (b) heaviest_first is the `descending_order_into` of the weights
struct packing_problem {
  std::span<std::int64_t const> weights;
  std::span<priced_sample const> heaviest_first;
  std::int64_t capacity = 0;
};

/// How many bins a policy fills, and a number of bins that no packing gets below.
struct packed_bins {
  std::size_t bins = 0;
  std::size_t lower_bound = 0;

  friend bool operator==(packed_bins, packed_bins) = default;
};

/// Decides which bin holds each sample, and how many bins there are.
///
/// In, out     owner[n] enters unspecified and leaves with one bin per sample.
///             memory is scratch that the policy gives back.
/// Returns     the number of bins b: each of the bins 0 to b - 1 holds a sample, and none holds
///             more than the capacity. Or packed_bins: this number, and one that no packing gets
///             below, as the policy has proven.
/// A policy is a value, usually without state, with its parameters as public members.
template <class P>
concept packing_policy = requires(P const policy, packing_problem const& problem,
                                  std::span<bag_id> owner, workspace& memory) {
  requires std::same_as<decltype(policy(problem, owner, memory)), std::size_t> ||
               std::same_as<decltype(policy(problem, owner, memory)), packed_bins>;
};

/// Runs a policy. Its lower bound is 0 where it proves nothing.
template <packing_policy Policy>
packed_bins run_policy(Policy const& policy, packing_problem const& problem,
                       std::span<bag_id> owner, workspace& memory)
{
  auto const done = policy(problem, owner, memory);
  if constexpr (std::is_same_v<decltype(done), packed_bins const>) {
    return done;
  } else {
    return {done, 0};
  }
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PACKING_CONCEPTS_HPP
