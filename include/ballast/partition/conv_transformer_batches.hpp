// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/greedy/lightest_bags.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace ballast::inline v0 {

/// OrchMLLM's balancer for encoders whose convolution and linear layers take packed samples while
/// attention pads them: it fills bags with samples in descending order of length, padded to the
/// first of them, up to the makespan of a plan of lengths without padding, and gives the samples
/// that are left one by one to the bag with the least sum of lengths.
///
/// It reads lengths, not costs, and is here for comparison: `attention_padded_batches` balances
/// what the bags will really do and is never worse.
///
/// Expects     the problem has attention parts.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by what attention_padded batches of the samples cost that each
///                 bag now owns
///             (3) the length to fill to is the makespan of longest_processing_time on lengths,
///                 OrchMLLM's Algorithm 1; a batch is as long as its first sample; no more than m
///                 are opened
///             (4) where bags have several speeds, what is counted in tokens is counted per unit of
///                 speed; what bags have to start with is work and not tokens: it does not count
///             (5) ties between bags to add to go as in longest_processing_time
/// Complexity  O(n (kinds + log m)) after a sort.
/// Source      follows Algorithm 5 of B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate Multimodal
///             Data with Batch Post-Balancing to Accelerate Multimodal Large Language Model
///             Training", arXiv 2503.23830, 2025.
struct conv_transformer_batches {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    detail::expect_attention(problem);
    auto scratch = memory.open();
    std::span<cost_units> const lengths = scratch.take<cost_units>(owner.size());
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      lengths[sample] = problem.lengths[sample];
    }
    std::span<priced_sample> const longest_first = scratch.take<priced_sample>(lengths.size());
    descending_order_into(longest_first, lengths, memory);
    partition_problem in_tokens = problem;
    in_tokens.costs = lengths;
    in_tokens.heaviest_first = longest_first;
    in_tokens.lower_bound = {};
    place(in_tokens, owner, memory);

    std::span<detail::padded_sum> const batches = scratch.take<detail::padded_sum>(loads.size());
    std::fill(batches.begin(), batches.end(), detail::padded_sum{});
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      cost_units const padded = problem.attention[sample];
      batches[to_index(owner[sample])].add(problem.costs[sample] - padded, padded);
    }
    for (std::size_t bag = 0; bag < loads.size(); ++bag) { loads[bag] += batches[bag].load(); }
  }

  [[nodiscard]] static constexpr batching batches() noexcept { return batching::attention_padded; }

  friend bool operator==(conv_transformer_batches, conv_transformer_batches) = default;

 private:
  // The algorithm itself: all costs are tokens.
  static void place(partition_problem const& in_tokens, std::span<bag_id> owner, workspace& memory)
  {
    auto scratch = memory.open();
    std::span<cost_units> const sums = scratch.take<cost_units>(in_tokens.gpus.size());
    std::fill(sums.begin(), sums.end(), 0);
    detail::finishing_times const times(in_tokens, sums, scratch);
    detail::padded_filling bags(in_tokens, times, scratch);

    longest_processing_time{}(in_tokens, sums, owner, memory);
    uint128 without_padding = 0;
    for (std::size_t bag = 0; bag < sums.size(); ++bag) {
      without_padding = std::max(without_padding, times.finish(bag, sums[bag]));
    }

    std::fill(sums.begin(), sums.end(), 0);
    auto const filled = bags.fill(without_padding, [&](detail::padded_batch const& full) {
      for (auto const [length, sample] : full.samples) {
        owner[to_index(sample)] = to_id<bag_id>(full.bag);
        sums[full.bag] += length;
      }
    });
    detail::lightest_bags const shortest(in_tokens, sums, scratch);
    for (auto const [length, sample] : filled.left) {
      detail::identical_bags* best = &shortest.kinds().front();
      for (detail::identical_bags& kind : shortest.kinds().subspan(1)) {
        if (!partition_problem::splits(in_tokens.lengths[to_index(sample)], kind.gpus)) { break; }
        if (sum_per_speed(kind) < sum_per_speed(*best)) { best = &kind; }
      }
      owner[to_index(sample)] = to_id<bag_id>(best->lightest().index);
      best->add_to_lightest(length);
    }
  }

  [[nodiscard]] static ratio sum_per_speed(detail::identical_bags const& kind) noexcept
  {
    return {kind.lightest().load, kind.speed};
  }
};

}  // namespace ballast::inline v0
