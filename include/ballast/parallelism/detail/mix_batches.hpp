// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_MIX_BATCHES_HPP
#define BALLAST_PARALLELISM_DETAIL_MIX_BATCHES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/parallelism/bag_exchange_work.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0::detail {

/// The samples of one batch, heaviest first: what the first so many of them cost, and how many
/// tokens they have.
///
/// Shapes      cost_before[n + 1], tokens_before[n + 1].
struct mix_batch {
  std::vector<std::uint64_t> cost_before;
  std::vector<std::uint64_t> tokens_before;

  [[nodiscard]] std::size_t size() const noexcept { return cost_before.size() - 1; }
  [[nodiscard]] std::uint64_t cost(std::size_t sample) const noexcept
  {
    return cost_before[sample + 1] - cost_before[sample];
  }
  [[nodiscard]] tokens length(std::size_t sample) const noexcept
  {
    return static_cast<tokens>(tokens_before[sample + 1] - tokens_before[sample]);
  }
};

/// What mixes are judged on: batches that are priced and sorted once for all of them.
struct mix_batches {
  std::vector<mix_batch> batches;
  bag_exchange_work exchanges;
  std::size_t samples = 0;                               ///< of all batches
  tokens shortest = std::numeric_limits<tokens>::max();  ///< of those that have tokens
};

[[nodiscard]] inline tl::unexpected<error> refused_sample(std::size_t batch, std::size_t sample,
                                                          std::string const& why)
{
  return fail(error_code::out_of_range, batch, "sample ", sample, " of batch ", batch, why);
}

/// Fills batch `number`, whose samples are priced.
inline void fill_batch(mix_batches& all, std::size_t number, std::span<tokens const> lengths,
                       std::span<cost_units const> costs, workspace& memory)
{
  auto scratch = memory.open();
  std::span<priced_sample> const order = scratch.take<priced_sample>(costs.size());
  descending_order_into(order, costs, memory);
  mix_batch& added = all.batches[number];
  added.cost_before.reserve(order.size() + 1);
  added.tokens_before.reserve(order.size() + 1);
  std::uint64_t cost_sum = 0;
  std::uint64_t token_sum = 0;
  for (auto const [cost, sample] : order) {
    tokens const length = lengths[to_index(sample)];
    added.cost_before.push_back(cost_sum);
    added.tokens_before.push_back(token_sum);
    cost_sum += static_cast<std::uint64_t>(cost);
    token_sum += static_cast<std::uint64_t>(length);
    if (length > 0) { all.shortest = std::min(all.shortest, length); }
  }
  added.cost_before.push_back(cost_sum);
  added.tokens_before.push_back(token_sum);
  all.samples += order.size();
}

/// Prices and sorts batches for a job of so many GPUs. Errors count them from `first`.
///
/// Ensures     (1) no step of any mix, in eighths of a cost unit, and no sum of one step for each
///                 batch is 2^62 or more
/// Errors      out_of_range: batch `position` has a sample whose length is not in [0,
///             longest_sample] or that has no cost, or costs and exchanges of the batches up to it
///             add up to 2^59 or more.
template <cost_model CostOf>
[[nodiscard]] result<mix_batches> read_mix_batches(std::span<sample_batch const> batches,
                                                   std::size_t first,
                                                   bag_exchange_work const& exchanges,
                                                   std::size_t gpus, CostOf const& cost_of)
{
  mix_batches all;
  all.exchanges = exchanges;
  all.batches = std::vector<mix_batch>(batches.size());
  cost_units const slowest = *std::max_element(exchanges.once.begin(), exchanges.once.end());
  std::uint64_t const dearest =
      *std::max_element(exchanges.per_token.begin(), exchanges.per_token.end());
  std::uint64_t const dearest_sample =
      *std::max_element(exchanges.per_sample.begin(), exchanges.per_sample.end());
  workspace memory;
  std::vector<cost_units> costs;
  uint128 sum = 0;
  for (std::size_t batch = first; batch < first + batches.size(); ++batch) {
    std::span<tokens const> const lengths = span_of(batches[batch - first].lengths);
    costs.clear();
    uint128 token_sum = 0;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      tokens const length = lengths[sample];
      if (length < 0 || length > longest_sample) {
        return refused_sample(batch, sample,
                              concat(" has ", counted(length, "token"),
                                     ", which is not from 0 to 2147483647; leave it out"));
      }
      auto const cost = static_cast<cost_units>(std::invoke(cost_of, length));
      if (cost < 0 || cost == no_cost) {
        return refused_sample(batch, sample,
                              concat(" of ", counted(length, "token"),
                                     " has no cost from 0 to 2^63 - 2; correct the cost model"));
      }
      costs.push_back(cost);
      sum += static_cast<std::uint64_t>(cost);
      token_sum += static_cast<std::uint64_t>(length);
    }
    // Every bag rounds its exchanges up by less than a unit.
    sum += ((token_sum * dearest + uint128{lengths.size()} * dearest_sample) >>
            bag_exchange_work::fraction_bits) +
           gpus + uint128{bag_mix::largest} * static_cast<std::uint64_t>(slowest);
    if (sum >> 59 != 0) {
      return fail(error_code::out_of_range, batch,
                  "the costs and exchanges of the batches up to batch ", batch,
                  " add up to 2^59 units or more; give fewer batches or use a coarser unit");
    }
    fill_batch(all, batch - first, lengths, span_of(costs), memory);
  }
  return all;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_MIX_BATCHES_HPP
