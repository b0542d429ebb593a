// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_ORCHESTRATED_STEP_HPP
#define BALLAST_RUNTIME_ORCHESTRATED_STEP_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>

#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// The subsequences of one modality in a step: where they are read, encoded and needed.
///
/// A subsequence is known by its number: of all samples in gathered order, and inside a sample in
/// the order in which the language model sees them. It is a `sample_id` of the plan and of the
/// placements here.
///
/// Shapes      lengths[n], source[n], parts[n]; own_lengths: those that this rank's bag encodes, in
///             the order of its rows.
struct modality_step {
  std::vector<tokens> lengths;      ///< as read
  std::vector<rank_id> source;      ///< the rank that has read each
  std::vector<sample_part> parts;   ///< where its outputs are in its sample's sequence
  partition_plan planned;           ///< who encodes which; of nothing for text
  std::vector<tokens> own_lengths;  ///< as read
  placement as_read;                ///< input tokens where they were read
  placement as_computed;            ///< input tokens where they are encoded; as_read for text
  placement as_encoded;             ///< output tokens where they are encoded
  placement as_needed;              ///< output tokens inside the sequences of the language model
  route_plan to_encoder;            ///< this rank's, from as_read to as_computed
  route_plan to_model;              ///< this rank's, from as_encoded to as_needed
};

/// A step of a multimodal model, planned in all its phases before the first one runs: for one rank.
///
/// Shapes      modalities: those of the encoders in their order, then text. lengths[n], source[n]
///             of n samples.
/// Ensures     (1) a sample is as long as its outputs and texts together, which lie in its sequence
///                 in the order in which the sample lists them
///             (2) tokens of subsequence i of modality m go from row to row of as_read,
///                 as_computed, as_encoded and as_needed of modalities[m]
///             (3) plans and placements are the same on every rank; routes and own_lengths are of
///                 the rank that planned
struct orchestrated_step {
  std::vector<modality_step> modalities;
  std::vector<tokens> lengths;      ///< of the samples in the language model
  std::vector<rank_id> source;      ///< the rank that has read each sample
  partition_plan planned;           ///< who computes which sample in the language model
  std::vector<tokens> own_lengths;  ///< of the samples of this rank's bag, in the order of its rows
  placement as_computed;            ///< samples where the language model computes them

  /// One word that differs where ranks plan otherwise.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest all;
    all.add(modalities.size()).add(planned.digest()).add(detail::span_of(lengths));
    for (modality_step const& each : modalities) {
      all.add(each.planned.digest()).add(detail::span_of(each.lengths));
      for (sample_part const& part : each.parts) {
        all.add(static_cast<std::uint64_t>(part.first)).add(static_cast<std::uint64_t>(part.count));
      }
    }
    return all.value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_ORCHESTRATED_STEP_HPP
