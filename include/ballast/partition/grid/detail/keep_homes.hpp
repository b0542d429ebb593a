// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_KEEP_HOMES_HPP
#define BALLAST_PARTITION_GRID_DETAIL_KEEP_HOMES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// Renumbers the ranks of some slots so that much weight stays at home: pairs of a row and the home
/// of most of its weight go first. What kept more before stays.
///
/// Shapes      owner[n], home[n], weights[n]; cells are slot x ranks + rank.
/// Complexity  O(n log n).
inline void keep_homes(std::span<cell_id> owner, std::span<rank_id const> home,
                       std::span<std::int64_t const> weights, std::size_t ranks,
                       std::size_t first_slot, std::size_t end_slot, workspace& memory)
{
  struct held {
    std::uint64_t pair;  ///< row x ranks + home
    std::int64_t weight;
  };
  auto scratch = memory.open();
  auto const pairs = scratch.take<held>(owner.size());
  std::size_t count = 0;
  std::int64_t kept = 0;
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const cell = to_index(owner[sample]);
    if (cell < first_slot * ranks || cell >= end_slot * ranks) { continue; }
    std::size_t const row = cell % ranks;
    pairs[count++] = {row * ranks + to_index(home[sample]), weights[sample]};
    if (row == to_index(home[sample])) { kept += weights[sample]; }
  }
  auto const used = pairs.first(count);
  std::sort(used.begin(), used.end(), [](held a, held b) { return a.pair < b.pair; });
  std::size_t merged = 0;
  for (held const each : used) {
    if (merged > 0 && used[merged - 1].pair == each.pair) {
      used[merged - 1].weight += each.weight;
    } else {
      used[merged++] = each;
    }
  }
  auto const best = used.first(merged);
  std::sort(best.begin(), best.end(), [](held a, held b) {
    return a.weight != b.weight ? a.weight > b.weight : a.pair < b.pair;
  });
  constexpr auto none = std::numeric_limits<std::uint32_t>::max();
  auto const rank_of = scratch.take<std::uint32_t>(ranks);
  auto const row_of = scratch.take<std::uint32_t>(ranks);
  std::fill(rank_of.begin(), rank_of.end(), none);
  std::fill(row_of.begin(), row_of.end(), none);
  std::int64_t would_keep = 0;
  for (held const each : best) {
    auto const row = static_cast<std::uint32_t>(each.pair / ranks);
    auto const rank = static_cast<std::uint32_t>(each.pair % ranks);
    if (rank_of[row] != none || row_of[rank] != none) { continue; }
    rank_of[row] = rank;
    row_of[rank] = row;
    would_keep += each.weight;
  }
  if (would_keep <= kept) { return; }
  std::uint32_t free = 0;
  for (std::uint32_t& rank : rank_of) {
    if (rank != none) { continue; }
    while (row_of[free] != none) { ++free; }
    rank = free++;
  }
  for (cell_id& cell : owner) {
    std::size_t const at = to_index(cell);
    if (at < first_slot * ranks || at >= end_slot * ranks) { continue; }
    cell = to_id<cell_id>(at - at % ranks + rank_of[at % ranks]);
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_KEEP_HOMES_HPP
