// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_FITS_NODES_HPP
#define BALLAST_PARALLELISM_DETAIL_FITS_NODES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Whether all groups of GPUs lie inside nodes at once, when the largest groups are placed first
/// and each in the fullest node with room. Where each size of a group divides the next larger one, as
/// powers of two do, no other placement does better. It is what place_layout does, but counts nodes instead
/// of placing GPUs, since a search asks for every layout that it prices.
///
/// Expects     per_node >= 1; no group has more than per_node GPUs.
/// Complexity  O(1) where each size divides the next larger one and the largest divides the nodes;
///             else O(k^3) for k modules.
[[nodiscard]] inline bool fits_nodes(std::span<module_layout const> modules, std::uint32_t gpus,
                                     std::uint32_t per_node)
{
  std::uint64_t wanted = 0;
  std::uint32_t largest = 1;
  for (module_layout const& each : modules) {
    wanted += each.gpus();
    largest = std::max(largest, each.group());
  }
  if (wanted > gpus) { return false; }
  bool const chain =
      gpus % per_node % largest == 0 && per_node % largest == 0 &&
      std::all_of(modules.begin(), modules.end(), [&](module_layout const& each) {
        return std::all_of(modules.begin(), modules.end(), [&](module_layout const& other) {
          return each.group() % other.group() == 0 || other.group() % each.group() == 0;
        });
      });
  if (chain) { return true; }

  struct alike_nodes {
    std::uint32_t free;  // GPUs that each of them has left
    std::uint64_t count;
  };
  std::vector<alike_nodes> nodes = {{per_node, gpus / per_node}, {gpus % per_node, 1}};
  std::vector<std::size_t> largest_first(modules.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::size_t a, std::size_t b) {
    return precedes(modules[b].group(), modules[a].group(), a, b);
  });
  for (std::size_t const module : largest_first) {
    std::uint32_t const group = modules[module].group();
    for (std::uint64_t left = modules[module].gpus() / group; left > 0;) {
      auto fullest = nodes.end();
      for (auto each = nodes.begin(); each != nodes.end(); ++each) {
        bool const has_room = each->count > 0 && each->free >= group;
        if (has_room && (fullest == nodes.end() || each->free < fullest->free)) { fullest = each; }
      }
      if (fullest == nodes.end()) { return false; }
      std::uint64_t const of_node = std::min<std::uint64_t>(fullest->free / group, left);
      std::uint64_t const filled = std::min(fullest->count, left / of_node);
      alike_nodes const rest{fullest->free - static_cast<std::uint32_t>(of_node) * group, filled};
      left -= filled * of_node;
      fullest->count -= filled;
      if (fullest->count > 0) {
        nodes.push_back(rest);
      } else {
        *fullest = rest;
      }
    }
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_FITS_NODES_HPP
