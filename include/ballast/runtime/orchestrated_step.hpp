// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>

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
  /// Shapes      lengths[n], source[n], parts[n]. Of text, the plan is of nothing and as_computed
  ///             is as_read.
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

/// What a rank has read in a step: samples, and the subsequences of each in the order in which the
/// language model sees them.
///
///     multimodal_samples read;
///     read.start_sample();
///     read.add(image, 1024);  // 0, 1, ...: the encoders
///     read.add(text, 60);     // and after them what the language model reads itself
///
/// Ensures     clear() keeps the memory, so that a step no larger than one before allocates nothing
class multimodal_samples {
 public:
  /// An image, an utterance or a stretch of text of a sample: its modality and how long it is as it
  /// was read.
  struct subsequence {
    std::uint32_t modality = 0;
    tokens length = 0;

    friend constexpr bool operator==(subsequence, subsequence) = default;
  };

  /// The modality of the entry that begins each sample in entries().
  static constexpr std::uint32_t begins_sample = std::numeric_limits<std::uint32_t>::max();
  /// The group of a sample that belongs with no other.
  static constexpr std::int64_t alone = -1;

  void clear() noexcept
  {
    entries_.clear();
    samples_ = 0;
  }

  /// A sample without subsequences is one too. Samples of one group, such as the answers to one
  /// prompt, stay on one bag in phases that are told to keep them `together`, whoever has read
  /// them.
  ///
  /// Expects     group >= 0, or alone.
  void start_sample(std::int64_t group = alone)
  {
    BALLAST_EXPECTS(group >= alone, "a sample is of group ", group);
    entries_.push_back({begins_sample, group});
    ++samples_;
  }

  /// Adds to the sample that was started last. Whether modality and length are possible is for the
  /// plan to say, on every rank.
  void add(std::uint32_t modality, tokens length)
  {
    BALLAST_EXPECTS(samples_ >= 1, "a subsequence was added before a sample was started");
    BALLAST_EXPECTS(modality != begins_sample, "modality ", modality, " is reserved");
    entries_.push_back({modality, length});
  }

  /// Number of samples.
  [[nodiscard]] std::size_t size() const noexcept { return samples_; }

  /// An entry that begins a sample, with its group as length, then one for each of its
  /// subsequences, and so on.
  [[nodiscard]] std::span<subsequence const> entries() const noexcept
  {
    return detail::span_of(entries_);
  }

 private:
  std::vector<subsequence> entries_;
  std::size_t samples_ = 0;
};

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
  /// What each bag keeps to. Arrays of samples are left out, since sequences differ from step to
  /// step.
  placement_limits limits = {};
  /// Whether who has read each sequence is its home, for limits.then = fewest_moves.
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
  tokens most_per_gpu = no_limit;
  /// Whether samples of one group are on one group of GPUs, and so split to one degree.
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
