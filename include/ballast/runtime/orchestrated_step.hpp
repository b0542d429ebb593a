// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_ORCHESTRATED_STEP_HPP
#define BALLAST_RUNTIME_ORCHESTRATED_STEP_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/sharding/sharding_cost.hpp>

#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// How one phase of a step was planned, for one rank: over the subsequences of an encoder, or over
/// the samples of a model.
///
/// Ensures     (1) of a `phase` it has `planned` and own_lengths, of a `hybrid_phase` `sharded` and
///                 packs; the others are empty
///             (2) plans and as_computed are the same on every rank; own_lengths and packs are of
///                 the rank that planned
struct phase_step {
  partition_plan planned;           ///< who computes which sequence
  sharding_plan sharded;            ///< which group of GPUs does
  sharded_packs packs;              ///< what this rank computes of `sharded`
  std::vector<tokens> own_lengths;  ///< of the sequences of this rank's bag, in the order of rows
  placement as_computed;            ///< tokens where they are computed
  node_placement by_node;           ///< what phase::by_node did

  /// One word that differs where ranks plan otherwise.
  [[nodiscard]] std::uint64_t plan_digest() const noexcept
  {
    return ballast::digest{}.add(planned.digest()).add(sharded.digest()).value();
  }
};

/// A pass of another model over the samples of the language model.
struct pass_step : phase_step {
  route_plan from_model;  ///< this rank's, from where the language model has the samples
  bool moves = false;     ///< whether a row is elsewhere here: the same on every rank
};

/// The subsequences of one modality in a step: where they are read, encoded and needed.
///
/// A subsequence is known by its number: of all samples in gathered order, and inside a sample in
/// the order in which the language model sees them. It is a `sample_id` of the plan and of the
/// placements here.
///
/// Shapes      lengths[n], source[n], parts[n]. Of text, the plan is of nothing and as_computed is
///             as_read.
struct modality_step : phase_step {
  std::vector<tokens> lengths;     ///< as read
  std::vector<rank_id> source;     ///< the rank that has read each
  std::vector<sample_part> parts;  ///< where its outputs are in its sample's sequence
  placement as_read;               ///< input tokens where they were read
  placement as_encoded;            ///< output tokens where they are encoded
  placement as_needed;             ///< output tokens inside the sequences of the language model
  route_plan to_encoder;           ///< this rank's, from as_read to as_computed
  route_plan to_model;             ///< this rank's, from as_encoded to as_needed
};

/// A step of a multimodal model, planned in all its phases before the first one runs: for one rank.
/// The step is itself the phase of the language model.
///
/// Shapes      modalities: those of the encoders in their order, then text. lengths[n], source[n],
///             groups[n] of n samples.
/// Ensures     (1) a sample is as long as its outputs and texts together, which lie in its sequence
///                 in the order in which the sample lists them
///             (2) tokens of subsequence i of modality m go from row to row of as_read,
///                 as_computed, as_encoded and as_needed of modalities[m]
///             (3) plans and placements are the same on every rank; routes, own_lengths and packs
///                 are of the rank that planned
struct orchestrated_step : phase_step {
  std::vector<modality_step> modalities;
  std::vector<tokens> lengths;  ///< of the samples in the language model
  std::vector<rank_id> source;  ///< the rank that has read each sample
  /// Of each sample: equal in a group; below 0, each its own, of those that are in none.
  std::vector<std::int64_t> groups;
  placement as_encoded;           ///< samples before the language model; only made for its by_node
  std::vector<pass_step> passes;  ///< of other models over the samples

  /// One word that differs where ranks plan otherwise.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest all;
    all.add(modalities.size()).add(plan_digest()).add(detail::span_of(lengths));
    for (modality_step const& each : modalities) {
      all.add(each.plan_digest()).add(detail::span_of(each.lengths));
      for (sample_part const& part : each.parts) {
        all.add(static_cast<std::uint64_t>(part.first)).add(static_cast<std::uint64_t>(part.count));
      }
    }
    for (pass_step const& each : passes) { all.add(each.plan_digest()); }
    return all.value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_ORCHESTRATED_STEP_HPP
