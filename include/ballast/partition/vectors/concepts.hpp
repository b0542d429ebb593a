// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_CONCEPTS_HPP
#define BALLAST_PARTITION_VECTORS_CONCEPTS_HPP

#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

/// What a sample, or a bin of samples, costs each of D parts of a model that run side by side, as
/// encoder and LLM.
template <std::size_t D>
using cost_vector = std::array<cost_units, D>;

/// The input of every policy over vectors: n samples to put in identical bins.
///
/// `partition_vectors()` builds it and checks what is expected here. A caller that runs a policy
/// directly has to keep to it.
///
/// Shapes      costs[n].
/// Units       all dimensions share one unit of time, since the objective compares them.
/// Expects     costs are not negative, and in every dimension they add up to less than 2^63,
///             starting loads included.
template <std::size_t D>
struct vector_problem {
  static_assert(D >= 1);
  std::span<cost_vector<D> const> costs;
};

/// Decides which bin owns each sample, so that the largest load of any bin in any dimension is
/// small.
///
/// In, out     loads[m] enters as work that each bin already has and leaves as the total; m >= 1.
///             owner[n] enters unspecified and leaves with one bin per sample.
///             memory is scratch that the policy gives back.
/// A policy is a value: regular, usually without state, parameters as public members.
template <class P, std::size_t D>
concept vector_partition_policy =
    std::regular<P> &&
    requires(P const policy, vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
             std::span<bin_id> owner, workspace& memory) {
      { policy(problem, loads, owner, memory) } -> std::same_as<void>;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_CONCEPTS_HPP
