// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_LAY_OUT_HPP
#define BALLAST_TOPOLOGY_LAY_OUT_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/cluster.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// What to do where bags laid in the order written would straddle a node or be misaligned.
enum class misplaced_bags : std::uint8_t {
  refuse,         ///< an error that names the first such bag
  largest_first,  ///< larger bags get their ranks first, the first that fit; numbers stay as written
};

namespace detail {

/// Whether a bag may start at `first`: inside one node at a multiple of its size, or whole nodes.
[[nodiscard]] inline bool bag_fits_at(std::size_t first, std::size_t gpus, std::size_t per_node)
{
  if (gpus > per_node) { return gpus % per_node == 0 && first % per_node == 0; }
  std::size_t const within = first % per_node;
  return within % gpus == 0 && within + gpus <= per_node;
}

[[nodiscard]] inline std::string bag_name(std::size_t index, std::size_t gpus)
{
  return "bag " + std::to_string(index) + " of " + std::to_string(gpus) + " GPUs";
}

}  // namespace detail

/// Lays replicas of a bag specification over a cluster until every GPU is in a bag.
///
/// Bags are numbered replica by replica, in the order written. A bag fits where its GPUs belong to
/// one node and its first rank is a multiple of its size within that node, so that its all-to-all
/// stays inside the node and nested process groups line up; a bag larger than a node must be whole
/// nodes.
///
/// Ensures     (1) every rank is in exactly one bag
///             (2) every bag fits in the sense above
///             (3) where all bags fit in the order written, bag b + 1 starts where bag b ends,
///                 whatever `misplaced` says
/// Errors      infeasible: the GPUs are no whole number of replicas (position 0), or bag `position`
///             does not fit, or found no gap when the largest were laid first.
/// Complexity  O(GPUs); largest first O(GPUs * different sizes + bags log bags).
[[nodiscard]] inline result<bag_layout> lay_out(bag_spec const& spec, cluster const& machines,
                                                misplaced_bags misplaced = misplaced_bags::refuse)
{
  std::size_t const gpus = machines.gpus();
  std::size_t const per_node = machines.gpus_per_node;
  if (spec.gpus() == 0 || gpus == 0 || gpus % spec.gpus() != 0) {
    return fail(error_code::infeasible, 0,
                "the bags of one replica take " + std::to_string(spec.gpus()) +
                    " GPUs, and the job's " + std::to_string(gpus) +
                    " are no whole number of replicas; change the bags or the number of GPUs");
  }

  std::vector<bag> bags;
  bags.reserve(gpus / spec.gpus() * spec.bags());
  std::size_t rank = 0;
  std::size_t misfit = gpus;  // index of the first bag that does not fit in the order written
  while (rank < gpus) {
    for (bag_group const group : spec.groups()) {
      for (std::uint32_t repeat = 0; repeat < group.bags; ++repeat) {
        if (!detail::bag_fits_at(rank, group.gpus, per_node)) {
          misfit = std::min(misfit, bags.size());
        }
        bags.push_back({to_id<rank_id>(rank), group.gpus});
        rank += group.gpus;
      }
    }
  }
  if (misfit == gpus) { return bag_layout(bags); }
  if (misplaced == misplaced_bags::refuse) {
    return fail(error_code::infeasible, misfit,
                detail::bag_name(misfit, bags[misfit].gpus) + " would start at rank " +
                    std::to_string(to_index(bags[misfit].first)) + ", which straddles nodes of " +
                    std::to_string(per_node) +
                    " GPUs or is no multiple of its size; write larger bags first, lay the largest "
                    "first, or "
                    "use sizes that divide a node");
  }

  // Larger first: a smaller bag laid before could cut every gap that a larger one fits.
  std::vector<std::size_t> largest_first(bags.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::size_t a, std::size_t b) {
    return bags[a].gpus > bags[b].gpus || (bags[a].gpus == bags[b].gpus && a < b);
  });
  std::vector<bool> taken(gpus, false);
  std::size_t first = 0;  // bags of the same size search on from the last one
  std::uint32_t size_before = 0;
  for (std::size_t const index : largest_first) {
    std::uint32_t const size = bags[index].gpus;
    if (size != size_before) { first = 0; }
    size_before = size;
    auto const free_at = [&](std::size_t start) {
      return detail::bag_fits_at(start, size, per_node) &&
             std::none_of(taken.begin() + static_cast<std::ptrdiff_t>(start),
                          taken.begin() + static_cast<std::ptrdiff_t>(start + size),
                          [](bool rank_taken) { return rank_taken; });
    };
    while (first + size <= gpus && !free_at(first)) { ++first; }
    if (first + size > gpus) {
      return fail(error_code::infeasible, index,
                  detail::bag_name(index, size) + " fits nowhere in nodes of " +
                      std::to_string(per_node) +
                      " GPUs; use sizes that divide a node, or whole nodes");
    }
    bags[index].first = to_id<rank_id>(first);
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(first), size, true);
  }
  return bag_layout(bags);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_LAY_OUT_HPP
