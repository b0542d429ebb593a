// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PHASE_HPP
#define BALLAST_RUNTIME_PHASE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ballast::inline v0 {

/// How one model of a multimodal step is computed: an encoder, the language model, or a pass of
/// another model over the same samples. Every phase has its own cost, its own bags and the policy
/// that fits how it batches.
///
///     phase vision{one_gpu_bags(64), "transformer:d=1280"_cost, refine{}, 4};
///
/// Expects     cost_of(length) returns what a sequence of so many tokens costs. rate >= 1, and 1
///             for the language model and passes. by_node is over the GPUs of the bags; where these
///             are the phase's own (ranks), neither it nor homes is asked for.
template <class Cost, partition_policy Policy>
  requires integer_function<Cost, tokens const&>
struct phase {
  bag_layout bags;  ///< over all ranks of the job, or over `ranks`
  Cost cost_of;
  Policy policy;
  std::uint32_t rate = 1;  ///< input tokens of one output token: n of them become ceil(n / rate)
  /// A bag of G GPUs gets at most G times as many tokens; `capped` makes every policy keep to it.
  std::int64_t most_per_gpu = partition_constraints::no_limit;
  /// Whether the policy is told who has read each sequence, as `least_movement` has to be.
  bool homes = false;
  /// Whether samples of one group stay in one bag (multimodal_samples::start_sample); in an encoder
  /// all their subsequences.
  bool together = false;
  /// The machines, if equal bags are to change places so that few rows cross nodes on their way to
  /// this phase (place_by_node): from where they were read to an encoder; from where they were
  /// encoded, or texts read, to the language model; from the language model to a pass.
  std::optional<cluster> by_node = {};
  /// The rank that each GPU of the bags is, increasing, if the phase has GPUs of its own, such as
  /// process_grid::data_ranks; other ranks then compute nothing of it.
  std::vector<rank_id> ranks = {};
};

template <class Cost, class Policy>
phase(bag_layout, Cost, Policy) -> phase<Cost, Policy>;
template <class Cost, class Policy>
phase(bag_layout, Cost, Policy, std::uint32_t) -> phase<Cost, Policy>;

/// A model of a multimodal step whose sequences are split, each to a degree of its own
/// (hybrid_sharding): it stands where a `phase` may, mostly as the language model.
///
///     hybrid_phase policy{device_groups(machines.nodes, cost.heads), cost, 65'536};
///
/// Its plan is phase_step::sharded, and what a rank computes is phase_step::packs.
///
/// Expects     what sharding_cost expects.
struct hybrid_phase {
  device_groups groups;  ///< over all ranks of the job, or over `ranks`
  sharding_cost cost;
  tokens tokens_per_gpu = no_token_limit;
  /// Refused: sequences of one group would be on groups of GPUs of different sizes.
  bool together = false;
  std::vector<rank_id> ranks = {};  ///< as in a phase; the ranks of the packs are GPUs of `groups`
  static constexpr std::uint32_t rate = 1;
};

/// A pass that is computed where another phase is, from the same rows in the same order: no row
/// moves between the two, and what both compute of a sequence is equal to the bit. So the ratio of
/// an update's probabilities to the old ones is exactly 1 before the first update.
struct shared_plan {
  /// The pass whose plan it is, an earlier one; none: the language model's.
  std::optional<std::size_t> pass = {};
  static constexpr std::uint32_t rate = 1;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PHASE_HPP
