// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DESCENDING_ORDER_HPP
#define BALLAST_CORE_DESCENDING_ORDER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// A sample and what it costs.
struct priced_sample {
  cost_units cost = 0;
  sample_id sample{};

  friend constexpr bool operator==(priced_sample, priced_sample) = default;
};

/// Heaviest first: the order in which greedy planners and bounds look at the samples.
///
/// A radix sort, least significant digit first, of 32-bit keys: the highest 32 bits in which costs
/// can differ. Samples whose keys are equal although their costs are not lie side by side after it
/// and are put in order by comparison. Its time per sample does not grow with the number of samples
/// as that of a comparison sort does, and it moves 8 bytes per sample and pass.
///
/// Shapes      costs[n], order[n]; n < 2^32; the spans do not overlap.
/// Expects     order.size() == costs.size(); no cost is negative.
/// Ensures     (1) order holds every sample once, with its cost
///             (2) costs do not increase, and equal costs are in sample order
/// Complexity  O(n) while few different costs agree in their highest 32 bits, O(n log n) at worst;
///             16 n bytes of scratch.
/// Source      H. H. Seward, "Information Sorting in the Application of Electronic Digital
///             Computers to Business Operations", MIT Digital Computer Laboratory R-232, 1954.
inline void descending_order(std::span<cost_units const> costs, std::span<priced_sample> order,
                             workspace& memory)
{
  BALLAST_EXPECTS(order.size() == costs.size());
  BALLAST_EXPECTS(costs.size() < (std::uint64_t{1} << 32));
  BALLAST_AUDIT(std::ranges::none_of(costs, [](cost_units cost) { return cost < 0; }));
  auto const heavier = [](priced_sample a, priced_sample b) {
    return a.cost > b.cost || (a.cost == b.cost && a.sample < b.sample);
  };

  // Below this size, clearing and scanning the counters costs more than comparisons do.
  constexpr std::size_t radix_pays_from = 256;
  if (costs.size() < radix_pays_from) {
    for (std::size_t sample = 0; sample < costs.size(); ++sample) {
      order[sample] = {costs[sample], to_id<sample_id>(sample)};
    }
    std::ranges::sort(order, heavier);
    return;
  }

  struct keyed_sample {
    std::uint32_t key;  // ascending keys are descending costs
    std::uint32_t sample;
  };
  constexpr int digit_bits = 11;
  constexpr int digits = 3;
  constexpr std::uint32_t digit_mask = (1U << digit_bits) - 1;
  auto scratch = memory.open();
  std::span<keyed_sample> from = scratch.take<keyed_sample>(costs.size());
  std::span<keyed_sample> to = scratch.take<keyed_sample>(costs.size());
  std::array<std::array<std::uint32_t, digit_mask + 1>, digits> first{};

  auto const [lightest, heaviest] = std::ranges::minmax(costs);
  auto const bits =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(heaviest - lightest)));
  int const dropped = std::max(bits - 32, 0);
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    auto const below_heaviest = static_cast<std::uint64_t>(heaviest - costs[sample]);
    auto const key = static_cast<std::uint32_t>(below_heaviest >> dropped);
    from[sample] = {key, static_cast<std::uint32_t>(sample)};
    for (int digit = 0; digit < digits; ++digit) {
      ++first[static_cast<std::size_t>(digit)][(key >> (digit * digit_bits)) & digit_mask];
    }
  }
  for (int digit = 0; digit * digit_bits < bits - dropped; ++digit) {
    auto& place = first[static_cast<std::size_t>(digit)];
    std::uint32_t before = 0;
    for (std::uint32_t& count : place) { before += std::exchange(count, before); }
    for (keyed_sample const item : from) {
      to[place[(item.key >> (digit * digit_bits)) & digit_mask]++] = item;
    }
    std::swap(from, to);
  }

  // Samples of one key form a run; it is in order unless dropped bits differ.
  std::size_t run = 0;
  bool in_order = true;
  for (std::size_t place = 0; place <= order.size(); ++place) {
    if (place == order.size() || from[place].key != from[run].key) {
      if (!in_order) { std::ranges::sort(order.subspan(run, place - run), heavier); }
      run = place;
      in_order = true;
    }
    if (place == order.size()) { break; }
    order[place] = {costs[from[place].sample], to_id<sample_id>(from[place].sample)};
    in_order = in_order && (place == run || !heavier(order[place], order[place - 1]));
  }
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_DESCENDING_ORDER_HPP
