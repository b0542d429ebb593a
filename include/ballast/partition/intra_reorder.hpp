// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_INTRA_REORDER_HPP
#define BALLAST_PARTITION_INTRA_REORDER_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <ranges>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// A global batch in another order: the samples of data-parallel group 0, then of group 1, ...
///
/// Ensures     (1) order() is a permutation of the batch; plan.samples are its groups
///             (2) inside a group, samples stay in the order of the batch
struct reordered_batch {
  /// With groups as bags and lengths of 0: it says whose the samples are, not where tokens lie.
  partition_plan plan;

  [[nodiscard]] std::span<sample_id const> order() const noexcept { return plan.samples.values(); }
};

/// Reorders a global batch for data-parallel groups, so that all of them take equally long:
/// DistTrain's Algorithm 1. It is `partition` with groups as bags and without lengths; the order of
/// microbatches inside a group is the pipeline's part.
///
/// The paper uses longest processing time, after which groups can differ in their number of
/// samples. Trainers whose groups all need the same number of microbatches pass `equal_count` as
/// the policy; any other policy of `partition` works too.
///
///     auto const batch = intra_reorder(images, one_gpu_bags(4), encoder_time);
///
/// Shapes      samples[n] of any type; groups: one bag per data-parallel group, `one_gpu_bags(m)`.
/// Expects     cost_of(sample) returns an integer, the time that the sample takes.
/// Ensures     (1) those of reordered_batch and of partition
/// Errors      those of partition for costs.
/// Complexity  that of partition.
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025,
///             Algorithm 1.
template <std::ranges::forward_range Samples, integer_projection<Samples> CostOf,
          partition_policy Policy = longest_processing_time>
[[nodiscard]] result<reordered_batch> intra_reorder(Samples&& samples, bag_layout const& groups,
                                                    CostOf const& cost_of,
                                                    Policy const& policy = {})
{
  // One group computes a sample as a whole, so there is no length to split.
  auto const whole = [](auto const&) { return tokens{0}; };
  reordered_batch batch;
  workspace memory;
  auto const done = partition_into(batch.plan, memory, std::forward<Samples>(samples), groups,
                                   policy, cost_of, whole);
  if (!done) { return tl::unexpected(done.error()); }
  return batch;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_INTRA_REORDER_HPP
