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

namespace detail {

struct keyed_sample {
  std::uint64_t key;  // ascending keys are descending costs
  std::uint32_t sample;
};

}  // namespace detail

/// Heaviest first: the order in which every greedy planner looks at the samples.
///
/// A radix sort by bytes, least significant first, over the bytes in which the costs differ. It is
/// stable, so equal costs stay in sample order, and its time per sample does not grow with the
/// number of samples as that of a comparison sort does.
///
/// Shapes      costs[n], order[n]; n < 2^32; the spans do not overlap.
/// Expects     order.size() == costs.size(); no cost is negative.
/// Ensures     (1) order is a permutation of the samples with costs[order[i]] >= costs[order[i+1]]
///             (2) equal costs are in sample order
/// Complexity  O(n b) for costs that differ in b bytes; 32 n bytes of scratch.
/// Source      H. H. Seward, "Information Sorting in the Application of Electronic Digital
///             Computers to Business Operations", MIT Digital Computer Laboratory R-232, 1954.
inline void descending_order(std::span<cost_units const> costs, std::span<sample_id> order,
                             workspace& memory)
{
  BALLAST_EXPECTS(order.size() == costs.size());
  BALLAST_EXPECTS(costs.size() < (std::uint64_t{1} << 32));
  BALLAST_AUDIT(std::ranges::none_of(costs, [](cost_units cost) { return cost < 0; }));
  if (costs.empty()) { return; }

  using detail::keyed_sample;
  auto scratch = memory.open();
  std::span<keyed_sample> from = scratch.take<keyed_sample>(costs.size());
  std::span<keyed_sample> to = scratch.take<keyed_sample>(costs.size());

  cost_units const heaviest = std::ranges::max(costs);
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    from[sample] = {static_cast<std::uint64_t>(heaviest - costs[sample]),
                    static_cast<std::uint32_t>(sample)};
  }

  // Below this size, clearing and scanning the counters of a pass costs more than comparisons do.
  constexpr std::size_t radix_pays_from = 512;
  if (costs.size() < radix_pays_from) {
    std::ranges::sort(from, [](keyed_sample a, keyed_sample b) {
      return a.key < b.key || (a.key == b.key && a.sample < b.sample);
    });
  } else {
    cost_units const lightest = std::ranges::min(costs);
    auto const bits =
        static_cast<int>(std::bit_width(static_cast<std::uint64_t>(heaviest - lightest)));
    for (int shift = 0; shift < bits; shift += 8) {
      std::array<std::uint32_t, 256> first{};
      for (keyed_sample const& item : from) { ++first[(item.key >> shift) & 0xff]; }
      std::uint32_t before = 0;
      for (std::uint32_t& count : first) { before += std::exchange(count, before); }
      for (keyed_sample const& item : from) { to[first[(item.key >> shift) & 0xff]++] = item; }
      std::swap(from, to);
    }
  }
  for (std::size_t place = 0; place < order.size(); ++place) {
    order[place] = to_id<sample_id>(from[place].sample);
  }
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_DESCENDING_ORDER_HPP
