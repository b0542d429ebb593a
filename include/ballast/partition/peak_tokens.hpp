// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>

namespace ballast::inline v0 {

/// Tokens that the GPU with most holds in a phase, padding included: what its activations, and so
/// its memory, grow with.
///
/// With `plan.owner` it is that of a plan; with the bags that samples were read on, that of a job
/// that does not balance.
///
/// Shapes      lengths[n], owner[n].
/// Expects     lengths are from 0 to longest_sample, owners are bags of the layout.
/// Ensures     (1) the largest, over bags, of the sum of the lengths of its samples, or of a padded
///                 batch their number times the longest, each divided by the GPUs of the bag and
///                 rounded up. Padded attention needs no memory that grows with its padding, since
///                 scores are not stored: its batches count as packed ones
/// Complexity  O(n + m); 16 m bytes of scratch.
[[nodiscard]] inline tokens peak_tokens(std::span<tokens const> lengths,
                                        std::span<bag_id const> owner, bag_layout const& bags,
                                        batching batches, workspace& memory)
{
  BALLAST_EXPECTS(owner.size() == lengths.size(), "there are owners of ",
                  detail::counted(owner.size(), "sample"), " and lengths of ", lengths.size());
  auto scratch = memory.open();
  std::span<tokens> const held = scratch.take<tokens>(bags.size());
  std::span<tokens> const longest = scratch.take<tokens>(bags.size());
  std::fill(held.begin(), held.end(), 0);
  std::fill(longest.begin(), longest.end(), 0);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    std::size_t const bag = to_index(owner[sample]);
    BALLAST_EXPECTS(bag < bags.size(), "sample ", sample, " is in bag ", bag, " of ", bags.size());
    held[bag] += batches == batching::padded ? 1 : lengths[sample];
    longest[bag] = std::max(longest[bag], lengths[sample]);
  }
  tokens peak = 0;
  for (std::size_t bag = 0; bag < held.size(); ++bag) {
    tokens const all = batches == batching::padded ? held[bag] * longest[bag] : held[bag];
    tokens const gpus = bags.sizes()[bag];
    peak = std::max(peak, (all + gpus - 1) / gpus);
  }
  return peak;
}

/// The largest number of samples of a mini-batch for which a condition holds, such as that the peak
/// tokens of every phase fit the memory: doubles until it does not hold, then bisects.
///
/// Expects     fits(samples) says whether so many fit; 0 samples fit.
/// Ensures     (1) fits(returned), and returned == most or !fits(returned + 1)
///             (2) no larger number fits, where a number that does not fit means that no larger one
///                 does. With a balancer that can fail by little: one sample more may make a better
///                 plan
/// Complexity  O(log most) calls.
template <std::predicate<std::size_t> Fits>
[[nodiscard]] std::size_t largest_mini_batch(std::size_t most, Fits const& fits)
{
  std::size_t low = 0;
  std::size_t high = std::min<std::size_t>(most, 1);
  while (low < high && fits(high)) {
    low = high;
    high = high > most / 2 ? most : 2 * high;
  }
  while (low + 1 < high) {
    std::size_t const middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

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
/// samples. Trainers whose groups all need the same number of microbatches say so by the limits;
/// every policy of `partition` works.
///
///     auto const batch = intra_reorder(images, one_gpu_bags(4), encoder_time);
///     auto const even = intra_reorder(images, groups, time, {.samples = counts::equal()});
///
/// Shapes      samples[n] of any type; groups: one bag per data-parallel group, `one_gpu_bags(m)`.
/// Expects     cost_of(sample) returns an integer, the time that the sample takes.
/// Ensures     (1) those of reordered_batch and of partition
/// Errors      those of partition for costs and limits.
/// Complexity  that of partition.
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025,
///             Algorithm 1.
template <std::ranges::forward_range Samples, integer_projection<Samples> CostOf,
          partition_policy Policy = longest_processing_time>
[[nodiscard]] result<reordered_batch> intra_reorder(Samples&& samples, bag_layout const& groups,
                                                    CostOf const& cost_of,
                                                    placement_limits const& limits = {},
                                                    Policy const& policy = {})
{
  // One group computes a sample as a whole, so there is no length to split.
  auto const whole = [](auto const&) { return tokens{0}; };
  reordered_batch batch;
  workspace memory;
  auto const done = partition_into(batch.plan, memory, std::forward<Samples>(samples), groups,
                                   cost_of, whole, limits, policy);
  if (!done) { return tl::unexpected(done.error()); }
  return batch;
}

}  // namespace ballast::inline v0
