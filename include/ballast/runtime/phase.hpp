// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PHASE_HPP
#define BALLAST_RUNTIME_PHASE_HPP

#include <ballast/core/integer_projection.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// How one model of a multimodal step is computed: an encoder, or the language model. Every phase
/// has its own cost, its own bags and the policy that fits how it batches (batching_strategy).
///
///     phase vision{one_gpu_bags(64), "transformer:d=1280"_cost, refine{}, 4};
///
/// Expects     cost_of(length) returns what a sequence of so many tokens costs. rate >= 1, and 1
///             for the language model.
template <class Cost, partition_policy Policy>
  requires integer_function<Cost, tokens const&>
struct phase {
  bag_layout bags;  ///< over all ranks of the job
  Cost cost_of;
  Policy policy;
  std::uint32_t rate = 1;  ///< input tokens of one output token: n of them become ceil(n / rate)
  /// A bag of G GPUs gets at most G times as many tokens; `capped` makes every policy keep to it.
  std::int64_t most_per_gpu = partition_constraints::no_limit;
  /// Whether the policy is told who has read each sequence, as `least_movement` has to be.
  bool homes = false;
};

template <class Cost, class Policy>
phase(bag_layout, Cost, Policy) -> phase<Cost, Policy>;
template <class Cost, class Policy>
phase(bag_layout, Cost, Policy, std::uint32_t) -> phase<Cost, Policy>;

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PHASE_HPP
