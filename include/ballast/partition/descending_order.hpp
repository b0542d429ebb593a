// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/radix_sort.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0 {

/// Heaviest first: the order in which greedy planners and bounds look at the samples.
///
/// A radix sort, least significant digit first, of 30-bit keys: the highest 30 bits in which costs
/// can differ. Samples with equal keys but different costs then lie side by side, and a comparison
/// sort puts them in order. Its time per sample does not grow with the number of samples as that of
/// a comparison sort does, and it moves 8 bytes per sample and pass.
///
/// Shapes      order[n], costs[n]; n < 2^32; the spans do not overlap.
/// Expects     no cost is negative.
/// Ensures     (1) order holds every sample once, with its cost
///             (2) costs do not increase, and equal costs are in sample order
/// Complexity  O(n) while few different costs agree in their highest 30 bits, O(n log n) at worst;
///             16 n bytes of scratch.
/// Source      H. H. Seward, "Information Sorting in the Application of Electronic Digital
///             Computers to Business Operations", MIT Digital Computer Laboratory R-232, 1954.
inline void descending_order_into(std::span<priced_sample> order, std::span<cost_units const> costs,
                                  workspace& memory)
{
  BALLAST_EXPECTS(order.size() == costs.size(), "`order` has ",
                  detail::counted(order.size(), "entry"), " for ",
                  detail::counted(costs.size(), "cost"));
  BALLAST_EXPECTS(costs.size() < (std::uint64_t{1} << 32), "there are ", costs.size(),
                  " costs to sort, and there can be fewer than 2^32");
  BALLAST_AUDIT(std::none_of(costs.begin(), costs.end(), [](cost_units cost) { return cost < 0; }),
                "a cost to sort is negative");
  auto const heavier = [](priced_sample a, priced_sample b) {
    return a.cost > b.cost || (a.cost == b.cost && a.sample < b.sample);
  };

  // Below this size, clearing and scanning the counters costs more than comparisons do.
  constexpr std::size_t radix_pays_from = 256;
  if (costs.size() < radix_pays_from) {
    for (std::size_t sample = 0; sample < costs.size(); ++sample) {
      order[sample] = {costs[sample], to_id<sample_id>(sample)};
    }
    std::sort(order.begin(), order.end(), heavier);
    return;
  }

  constexpr int digits = 3;
  constexpr int most_key_bits = 30;
  constexpr int sample_bits = 32;
  cost_units lightest = costs.front();
  cost_units heaviest = costs.front();
  for (cost_units const cost : costs) {
    lightest = std::min(lightest, cost);
    heaviest = std::max(heaviest, cost);
  }
  auto const bits =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(heaviest - lightest)));
  int const key_bits = std::min(bits, most_key_bits);
  auto scratch = memory.open();
  // A word is a key, of which ascending ones are descending costs, above a sample.
  std::span<std::uint64_t> const words = scratch.take<std::uint64_t>(costs.size());
  std::span<std::uint64_t> const spare = scratch.take<std::uint64_t>(costs.size());
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    auto const below_heaviest = static_cast<std::uint64_t>(heaviest - costs[sample]);
    words[sample] = (below_heaviest >> (bits - key_bits) << sample_bits) | sample;
  }
  auto const key_of = [](std::uint64_t word) { return word >> sample_bits; };
  std::span<std::uint64_t const> const sorted =
      detail::radix_sort_by_key<digits>(words, spare, key_bits, key_of);

  // Samples of one key form a run; it is in order unless dropped bits differ.
  std::size_t run = 0;
  bool in_order = true;
  for (std::size_t place = 0; place <= order.size(); ++place) {
    if (place == order.size() || key_of(sorted[place]) != key_of(sorted[run])) {
      if (!in_order) {
        auto const begin = order.begin();
        std::sort(begin + static_cast<std::ptrdiff_t>(run),
                  begin + static_cast<std::ptrdiff_t>(place), heavier);
      }
      run = place;
      in_order = true;
    }
    if (place == order.size()) { break; }
    auto const sample = static_cast<std::uint32_t>(sorted[place]);
    order[place] = {costs[sample], to_id<sample_id>(sample)};
    in_order = in_order && (place == run || !heavier(order[place], order[place - 1]));
  }
}

}  // namespace ballast::inline v0
