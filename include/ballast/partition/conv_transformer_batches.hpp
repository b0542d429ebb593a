// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_CONV_TRANSFORMER_BATCHES_HPP
#define BALLAST_PARTITION_CONV_TRANSFORMER_BATCHES_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/greedy/lightest_bags.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/detail/padding/padded_filling.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/longest_processing_time.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

/// OrchMLLM's balancer for encoders that convolve padded batches and then attend over them: it fills
/// bags in descending order up to the makespan of a plan without padding, and gives the samples that
/// are left one by one to the bag with the least load so far.
///
/// It is here for comparison: for the same costs and bags of one kind, `padded_batches` finds a plan
/// with the least makespan. Algorithm 5 counts tokens, this counts costs, which are the same where a
/// sample costs its length.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by the number of samples that each bag now owns times the
///                 largest of their costs
///             (3) the time to fill to is the makespan of longest_processing_time, OrchMLLM's
///                 Algorithm 1; a batch is as long as its first sample; no more than m are opened
///             (4) ties between bags to add to go as in longest_processing_time
/// Complexity  O(n (kinds + log m)) after the sort that the problem brings.
/// Source      follows Algorithm 5 of B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate Multimodal
///             Data with Batch Post-Balancing to Accelerate Multimodal Large Language Model
///             Training", arXiv 2503.23830, 2025.
struct conv_transformer_batches {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    auto scratch = memory.open();
    detail::finishing_times const times(problem, loads, scratch);
    detail::padded_filling bags(problem, times, scratch);
    uint128 const time = time_without_padding(problem, loads, owner, times, memory);

    std::span<batch> const batches = scratch.take<batch>(loads.size());
    std::fill(batches.begin(), batches.end(), batch{});
    auto const filled = bags.fill(time, [&](detail::padded_batch const& full) {
      for (auto const [cost, sample] : full.samples) {
        owner[to_index(sample)] = to_id<bag_id>(full.bag);
      }
      batches[full.bag] = {static_cast<cost_units>(full.samples.size()), full.samples.front().cost};
      loads[full.bag] += full.load();
    });

    detail::lightest_bags const shortest(problem, loads, scratch);
    for (auto const [cost, sample] : filled.left) {
      detail::identical_bags* best = &shortest.kinds().front();
      for (detail::identical_bags& kind : shortest.kinds().subspan(1)) {
        if (!partition_problem::fits(problem.lengths[to_index(sample)], kind.gpus)) { break; }
        if (load_per_speed(kind) < load_per_speed(*best)) { best = &kind; }
      }
      std::size_t const bag = best->lightest().index;
      cost_units const before = batches[bag].load();
      batches[bag] = {batches[bag].count + 1, std::max(batches[bag].largest, cost)};
      best->add_to_lightest(batches[bag].load() - before);
      owner[to_index(sample)] = to_id<bag_id>(bag);
    }
    shortest.store(loads);
  }

  [[nodiscard]] static constexpr batching batches() noexcept { return batching::padded; }
  [[nodiscard]] static constexpr bool restricts() noexcept { return true; }

  friend bool operator==(conv_transformer_batches, conv_transformer_batches) = default;

 private:
  struct batch {
    cost_units count;
    cost_units largest;

    [[nodiscard]] cost_units load() const noexcept { return count * largest; }
  };

  [[nodiscard]] static ratio load_per_speed(detail::identical_bags const& kind) noexcept
  {
    return {kind.lightest().load, kind.speed};
  }

  [[nodiscard]] static uint128 time_without_padding(partition_problem const& problem,
                                                    std::span<cost_units const> loads,
                                                    std::span<bag_id> owner,
                                                    detail::finishing_times const& times,
                                                    workspace& memory)
  {
    auto scratch = memory.open();
    std::span<cost_units> const packed = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), packed.begin());
    longest_processing_time{}(problem, packed, owner, memory);
    uint128 time = 0;
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      time = std::max(time, times.finish(bag, packed[bag] - loads[bag]));
    }
    return time;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_CONV_TRANSFORMER_BATCHES_HPP
