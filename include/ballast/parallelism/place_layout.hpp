// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_PLACE_LAYOUT_HPP
#define BALLAST_PARALLELISM_PLACE_LAYOUT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Places the modules of a layout on GPUs, which are numbered node by node.
///
/// The largest groups of tp x sp x ep GPUs are placed first, and each in the fullest node that has room;
/// groups of one size module after module, replica after replica, stage after stage.
///
/// Shapes      returns one place for each of the `gpus`; the last node has what is left of them.
/// Expects     gpus_per_node >= 1; all degrees are at least 1.
/// Ensures     (1) every group is GPUs of one node that follow each other
///             (2) each GPU has a place of its own
/// Errors      infeasible, position of the module: a group has no node with room; or with position
///             0: the modules take another number of GPUs. None for what `search_layouts` returns.
/// Complexity  O(modules nodes log nodes + gpus).
[[nodiscard]] inline result<std::vector<grid_place>> place_layout(
    std::span<module_layout const> modules, std::uint32_t gpus, std::uint32_t gpus_per_node)
{
  BALLAST_EXPECTS(gpus_per_node >= 1, "GPUs are placed on nodes of none");
  std::uint64_t wanted = 0;
  for (module_layout const& each : modules) { wanted += each.gpus(); }
  if (wanted != gpus) {
    return fail(error_code::infeasible, 0, "the modules take ", wanted, " of ",
                detail::counted(gpus, "GPU"), "; give a layout that uses all");
  }
  std::vector<std::size_t> largest_first(modules.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::size_t a, std::size_t b) {
    return detail::precedes(modules[b].group(), modules[a].group(), a, b);
  });

  struct node {
    std::uint32_t next;  // the first GPU that has no place yet
    std::uint32_t free;  // how many have none
  };
  std::vector<node> nodes;
  for (std::uint32_t first = 0; first < gpus; first += nodes.back().free) {
    nodes.push_back({first, std::min(gpus_per_node, gpus - first)});
  }
  std::vector<grid_place> places(gpus);
  for (std::size_t const module : largest_first) {
    std::uint32_t const of_group = modules[module].group();
    std::uint32_t const pp = modules[module].pp;
    std::sort(nodes.begin(), nodes.end(), [](node const& a, node const& b) {
      return detail::precedes(a.free, b.free, a.next, b.next);
    });
    auto fullest = nodes.begin();
    for (std::uint64_t group = 0; group < std::uint64_t{pp} * modules[module].dp; ++group) {
      while (fullest != nodes.end() && fullest->free < of_group) { ++fullest; }
      if (fullest == nodes.end()) {
        auto const of = detail::concat(" of module ", module);
        return fail(error_code::infeasible, module, "no node has room for group ", group, " of ",
                    detail::counted(of_group, "GPU"), of,
                    "; choose one that divides the GPUs of a node");
      }
      for (std::uint32_t rank = 0; rank < of_group; ++rank) {
        places[fullest->next + rank] = {static_cast<std::uint32_t>(module),
                                        static_cast<std::uint32_t>(group / pp),
                                        static_cast<std::uint32_t>(group % pp), rank};
      }
      fullest->next += of_group;
      fullest->free -= of_group;
    }
  }
  return places;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_PLACE_LAYOUT_HPP
