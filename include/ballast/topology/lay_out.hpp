// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_LAY_OUT_HPP
#define BALLAST_TOPOLOGY_LAY_OUT_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/detail/counted.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/node_sizes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// What to do where bags laid in the order written would straddle a node or be misaligned.
enum class misplaced_bags : std::uint8_t {
  refuse,         ///< an error that names the first such bag
  largest_first,  ///< larger bags get their ranks first, in the smallest nodes that they fit and
                  ///< there the first that fit; also where one in the order written would span
                  ///< nodes that are smaller than it, and another could hold it. Numbers stay as
                  ///< written
};

namespace detail {

/// Whether a bag may start at `first`: inside one node at a multiple of its size, or whole nodes of
/// equal size.
[[nodiscard]] inline bool bag_fits_at(node_sizes const& nodes, std::size_t first, std::size_t gpus)
{
  if (first + gpus > nodes.gpus()) { return false; }
  node_id const node = nodes.node_of(to_id<rank_id>(first));
  std::size_t const size = nodes[node];
  std::size_t const within = first - to_index(nodes.first(node));
  if (gpus <= size) { return within % gpus == 0 && within + gpus <= size; }
  if (within != 0 || gpus % size != 0) { return false; }
  if (nodes.all_equal()) { return true; }
  std::size_t const past = to_index(node) + gpus / size;
  for (std::size_t next = to_index(node) + 1; next < past; ++next) {
    if (next == nodes.size() || nodes[to_id<node_id>(next)] != size) { return false; }
  }
  return true;
}

[[nodiscard]] inline std::size_t largest_of(node_sizes const& nodes)
{
  std::size_t largest = 0;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    largest = std::max<std::size_t>(largest, nodes[to_id<node_id>(node)]);
  }
  return largest;
}

[[nodiscard, gnu::cold]] inline std::string bag_name(std::size_t index, std::size_t gpus)
{
  return concat("bag ", index, " of ", counted(gpus, "GPU"));
}

/// What is wrong with a bag that does not fit at `first`.
[[nodiscard, gnu::cold]] inline std::string misfit_text(node_sizes const& nodes, std::size_t first,
                                                        std::size_t gpus)
{
  node_id const node = nodes.node_of(to_id<rank_id>(first));
  std::size_t const size = nodes[node];
  std::size_t const within = first - to_index(nodes.first(node));
  std::string const name = concat("node ", to_index(node));
  if (gpus > size) {
    return name + " has " + counted(size, "GPU") +
           ", and a bag larger than its node must be whole nodes of one size";
  }
  if (within % gpus != 0) {
    return concat("GPU ", within, " of ", name, " is no multiple of ", gpus);
  }
  return name + " has only " + counted(size - within, "GPU") + " from there on";
}

/// Every place of a bag of `gpus`, best first: inside the smallest nodes that it fits, so that
/// larger ones stay whole, and then those that span nodes. The order of ranks breaks ties.
///
/// Shapes      smallest_first: all nodes.
/// Complexity  O(GPUs).
[[nodiscard]] inline std::vector<std::size_t> places_of_bag(node_sizes const& nodes,
                                                            std::span<node_id const> smallest_first,
                                                            std::size_t gpus)
{
  std::vector<std::size_t> places;
  for (node_id const node : smallest_first) {
    std::size_t const first = to_index(nodes.first(node));
    for (std::size_t within = 0; within + gpus <= nodes[node]; within += gpus) {
      places.push_back(first + within);
    }
  }
  std::vector<std::size_t> alike(nodes.size(), 1);  // nodes of one size in a row, from each on
  for (std::size_t index = nodes.size() - 1; index > 0; --index) {
    bool const as_next = nodes[to_id<node_id>(index - 1)] == nodes[to_id<node_id>(index)];
    if (as_next) { alike[index - 1] += alike[index]; }
  }
  for (node_id const node : smallest_first) {
    std::size_t const size = nodes[node];
    if (gpus > size && gpus % size == 0 && gpus / size <= alike[to_index(node)]) {
      places.push_back(to_index(nodes.first(node)));
    }
  }
  return places;
}

/// Gives larger bags their ranks first: a smaller bag laid before could cut every gap that a larger
/// one fits. Returns the first bag that finds no place, or the number of bags.
[[nodiscard]] inline std::size_t lay_largest_first(std::span<bag> bags, node_sizes const& nodes)
{
  std::vector<node_id> smallest_first(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    smallest_first[node] = to_id<node_id>(node);
  }
  if (!nodes.all_equal()) {
    std::sort(smallest_first.begin(), smallest_first.end(),
              [&nodes](node_id a, node_id b) { return precedes(nodes[a], nodes[b], a, b); });
  }
  std::vector<std::size_t> largest_first(bags.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [bags](std::size_t a, std::size_t b) {
    return precedes(bags[b].gpus, bags[a].gpus, a, b);
  });

  std::vector<bool> taken(nodes.gpus());
  std::vector<std::size_t> places;
  std::size_t next = 0;  // place at which bags of one size search on
  std::uint32_t size_before = 0;
  for (std::size_t const index : largest_first) {
    std::uint32_t const size = bags[index].gpus;
    if (size != size_before) {
      places = places_of_bag(nodes, span_of(smallest_first), size);
      next = 0;
      size_before = size;
    }
    while (next < places.size()) {
      std::size_t const place = places[next];
      std::size_t past_taken = place + size;  // the last taken rank of the place, and one
      while (past_taken > place && !taken[past_taken - 1]) { --past_taken; }
      if (past_taken == place) { break; }
      // Places up to that rank hold it too.
      while (next < places.size() && places[next] >= place && places[next] < past_taken) { ++next; }
    }
    if (next == places.size()) { return index; }
    bags[index].first = to_id<rank_id>(places[next]);
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(places[next]), size, true);
  }
  return bags.size();
}

/// Whether the bags of a specification fit in the order written, but larger ones first.
[[nodiscard, gnu::cold]] inline bool fits_written_largest_first(bag_spec const& spec,
                                                                node_sizes const& nodes)
{
  std::vector<bag_group> groups(spec.groups().begin(), spec.groups().end());
  std::sort(groups.begin(), groups.end(), [](bag_group a, bag_group b) { return a.gpus > b.gpus; });
  for (std::size_t rank = 0; rank < nodes.gpus();) {
    for (bag_group const group : groups) {
      for (std::uint32_t repeat = 0; repeat < group.bags; ++repeat, rank += group.gpus) {
        if (!bag_fits_at(nodes, rank, group.gpus)) { return false; }
      }
    }
  }
  return true;
}

/// Lays out bags at the speeds of the cluster, or refuses these.
[[nodiscard]] inline result<bag_layout> layout_at_speeds(std::span<bag const> bags,
                                                         cluster const& machines)
{
  auto const& speeds = machines.gpu_speeds;
  if (speeds.empty()) { return bag_layout(bags); }
  if (speeds.size() != machines.gpus()) {
    return fail(error_code::out_of_range, 0, "a job of ", counted(machines.gpus(), "GPU"), " has ",
                counted(speeds.size(), "speed"), "; give one for each GPU in rank order, or none");
  }
  for (std::size_t index = 0; index < bags.size(); ++index) {
    auto const first = speeds.begin() + static_cast<std::ptrdiff_t>(to_index(bags[index].first));
    auto const slowest = std::min_element(first, first + bags[index].gpus);
    if (*slowest == 0) {
      auto const rank = static_cast<std::size_t>(slowest - speeds.begin());
      return fail(error_code::out_of_range, rank, "GPU ", rank,
                  " has the speed 0; give it one of at least 1, or leave the GPU out");
    }
    if (std::uint64_t{*slowest} * bags[index].gpus > std::numeric_limits<std::uint32_t>::max()) {
      return fail(error_code::out_of_range, to_index(bags[index].first),
                  bag_name(index, bags[index].gpus) +
                      " is faster than 4294967295; give speeds in a coarser unit");
    }
  }
  return bag_layout(bags, span_of(speeds));
}

}  // namespace detail

/// Lays replicas of a bag specification over a cluster until every GPU is in a bag.
///
/// Bags are numbered replica by replica, in the order written. A bag fits where its GPUs belong to
/// one node and its first rank is a multiple of its size within that node, so that its all-to-all
/// stays inside the node and nested process groups line up; a bag larger than a node must be whole
/// nodes of equal size. Where nodes differ in size, bags laid largest first go to the smallest
/// nodes that they fit.
///
/// Ensures     (1) every rank is in exactly one bag
///             (2) every bag fits in the sense above
///             (3) where all bags fit in the order written, bag b + 1 starts where bag b ends,
///                 unless the largest come first and a bag would span nodes that one node could
///                 hold
///             (4) bags whose sizes are powers of two find places largest first if there are any
///             (5) largest first, no such bag spans nodes while there is room for it inside one
///             (6) the bags are as fast as the cluster's GPUs make them (bag_layout)
/// Errors      infeasible: the GPUs are no whole number of replicas (position 0), or bag `position`
///             does not fit, or found no gap when the largest were laid first; out_of_range: the
///             speeds are not one for each GPU (position 0), that of GPU `position` is 0, or that
///             of the bag which starts there does not fit 32 bits.
/// Complexity  O(GPUs), with nodes of several sizes O(GPUs + bags log nodes); largest first O(GPUs
///             * different sizes + bags log bags + nodes log nodes).
[[nodiscard]] inline result<bag_layout> lay_out(bag_spec const& spec, cluster const& machines,
                                                misplaced_bags misplaced = misplaced_bags::refuse)
{
  std::size_t const gpus = machines.gpus();
  node_sizes const& nodes = machines.nodes;
  if (spec.gpus() == 0 || gpus % spec.gpus() != 0) {
    return fail(error_code::infeasible, 0, "the bags of one replica take ",
                detail::counted(spec.gpus(), "GPU"), ", and the job's ", gpus,
                " are no whole number of replicas; change the bags or the number of GPUs");
  }

  std::vector<bag> bags;
  bags.reserve(gpus / spec.gpus() * spec.bags());
  std::size_t const largest_node = detail::largest_of(nodes);
  std::size_t rank = 0;
  std::size_t misfit = gpus;  // index of the first bag that does not fit in the order written
  bool spans = false;         // whether a bag that one node could hold is in several
  while (rank < gpus) {
    for (bag_group const group : spec.groups()) {
      for (std::uint32_t repeat = 0; repeat < group.bags; ++repeat) {
        if (misfit == gpus && !detail::bag_fits_at(nodes, rank, group.gpus)) {
          misfit = bags.size();
        }
        spans = spans || (group.gpus <= largest_node &&
                          group.gpus > nodes[nodes.node_of(to_id<rank_id>(rank))]);
        bags.push_back({to_id<rank_id>(rank), group.gpus});
        rank += group.gpus;
      }
    }
  }
  if (misfit != gpus && misplaced == misplaced_bags::refuse) {
    std::size_t const first = to_index(bags[misfit].first);
    bool const helps =
        detail::lay_largest_first(detail::mutable_span_of(bags), nodes) == bags.size();
    return fail(error_code::infeasible, misfit, detail::bag_name(misfit, bags[misfit].gpus),
                " would start at rank ", first, ": ",
                detail::misfit_text(nodes, first, bags[misfit].gpus),
                !helps ? "; nor do they fit with the largest first, so "
                : detail::fits_written_largest_first(spec, nodes)
                    ? "; write larger bags first, lay the largest first, or "
                    : "; lay the largest first, or ",
                "use sizes that divide a node");
  }
  if (misplaced == misplaced_bags::largest_first && (misfit != gpus || spans)) {
    std::vector<bag> laid = bags;
    std::size_t const unlaid = detail::lay_largest_first(detail::mutable_span_of(laid), nodes);
    if (unlaid == laid.size()) { return detail::layout_at_speeds(detail::span_of(laid), machines); }
    if (misfit != gpus) {
      return fail(error_code::infeasible, unlaid,
                  detail::bag_name(unlaid, laid[unlaid].gpus) + " fits nowhere in nodes of " +
                      nodes.text() +
                      " once bags as large or larger are laid; use sizes that divide a node, or "
                      "whole nodes of one size");
    }
  }
  return detail::layout_at_speeds(detail::span_of(bags), machines);
}

/// The same over equally fast GPUs in nodes of 8, as `cluster_of(gpus)` has them.
///
/// Errors      those of cluster_of, and those above.
[[nodiscard]] inline result<bag_layout> lay_out(bag_spec const& spec, std::size_t gpus,
                                                misplaced_bags misplaced = misplaced_bags::refuse)
{
  auto const machines = cluster_of(gpus);
  if (!machines) { return tl::unexpected(machines.error()); }
  return lay_out(spec, *machines, misplaced);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_LAY_OUT_HPP
