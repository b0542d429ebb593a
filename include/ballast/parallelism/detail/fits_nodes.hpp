// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_FITS_NODES_HPP
#define BALLAST_PARALLELISM_DETAIL_FITS_NODES_HPP

#include <ballast/core/detail/heap_sort.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Whether all groups of tp GPUs lie inside nodes at once, when the largest groups are placed first
/// and each in the fullest node with room. Where every tp divides the next larger one, as powers of
/// two do, no other placement does better. It is what place_layout does, but counts nodes instead of
/// placing GPUs, since a search asks for every layout that it prices.
///
/// Expects     per_node >= 1; every tp is at most per_node.
/// Complexity  O(1) where every tp divides the next larger one and the largest divides the nodes;
///             else O(k^2) for k modules.
[[nodiscard]] inline bool fits_nodes(std::span<module_layout const> modules, std::uint32_t gpus,
                                     std::uint32_t per_node)
{
  std::uint64_t wanted = 0;
  std::uint32_t largest = 1;
  for (module_layout const& each : modules) {
    wanted += each.gpus();
    largest = std::max(largest, each.tp);
  }
  if (wanted > gpus) { return false; }
  bool const chain =
      gpus % per_node % largest == 0 && per_node % largest == 0 &&
      std::all_of(modules.begin(), modules.end(), [&](module_layout const& each) {
        return std::all_of(modules.begin(), modules.end(), [&](module_layout const& other) {
          return each.tp % other.tp == 0 || other.tp % each.tp == 0;
        });
      });
  if (chain) { return true; }

  struct alike {
    std::uint32_t gpus;  // of each: those of a group, or those that a node has left
    std::uint64_t count;
  };
  std::vector<alike> all{{per_node, gpus / per_node}, {gpus % per_node, 1}};
  std::vector<alike> groups;
  for (module_layout const& each : modules) {
    groups.push_back({each.tp, std::uint64_t{each.pp} * each.dp});
  }
  heap_sort(groups, [](alike const& a, alike const& b) { return b.gpus < a.gpus; });
  for (auto [size, left] : groups) {
    heap_sort(all, [](alike const& a, alike const& b) { return a.gpus < b.gpus; });
    for (std::size_t place = 0; place < all.size() && left > 0; ++place) {
      std::uint64_t const in_each = all[place].gpus / size;
      if (in_each == 0) { continue; }
      std::uint64_t const full = std::min(all[place].count, left / in_each);
      auto const taken = static_cast<std::uint32_t>(in_each * size);
      std::uint32_t const free = all[place].gpus;
      all[place].count -= full;
      left -= full * in_each;
      all.push_back({free - taken, full});
      if (left > 0 && all[place].count > 0) {
        all.push_back({free - static_cast<std::uint32_t>(left) * size, 1});
        --all[place].count;
        left = 0;
      }
    }
    if (left > 0) { return false; }
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_FITS_NODES_HPP
