// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

namespace ballast::inline v0 {

BALLAST_ONCE bag_layout::bag_layout(std::span<bag const> bags,
                                    std::span<std::uint32_t const> gpu_speeds)
{
  std::size_t gpus = 0;
  for (bag const each : bags) { gpus += each.gpus; }
  constexpr auto no_bag = to_id<bag_id>(std::numeric_limits<std::uint32_t>::max());
  bag_of_.assign(gpus, no_bag);
  first_.reserve(bags.size());
  sizes_.reserve(bags.size());
  for (bag const each : bags) {
    std::size_t const first = to_index(each.first);
    BALLAST_EXPECTS(each.gpus >= 1 && first + each.gpus <= gpus, "bag ", size(), " has ",
                    detail::counted(each.gpus, "GPU"), " from rank ", first,
                    " on, and all bags have ", gpus);
    for (std::size_t rank = first; rank < first + each.gpus; ++rank) {
      // No rank twice, so every rank once.
      BALLAST_EXPECTS(bag_of_[rank] == no_bag, "rank ", rank, " is in bag ", bag_of_[rank],
                      " and in bag ", size());
      bag_of_[rank] = to_id<bag_id>(size());
    }
    first_.push_back(each.first);
    sizes_.push_back(each.gpus);
  }
  if (!sizes_.empty()) { smallest_ = *std::min_element(sizes_.begin(), sizes_.end()); }
  set_speeds(gpu_speeds);
}

BALLAST_ONCE void bag_layout::set_speeds(std::span<std::uint32_t const> gpu_speeds)
{
  BALLAST_EXPECTS(gpu_speeds.empty() || gpu_speeds.size() == gpus(), "there are speeds of ",
                  detail::counted(gpu_speeds.size(), "GPU"), " for a layout of ", gpus());
  speeds_ = sizes_;
  if (gpu_speeds.empty()) { return; }
  for (std::size_t index = 0; index < size(); ++index) {
    auto const of_bag = gpu_speeds.subspan(to_index(first_[index]), sizes_[index]);
    std::uint32_t const slowest = *std::min_element(of_bag.begin(), of_bag.end());
    std::uint64_t const speed = std::uint64_t{slowest} * sizes_[index];
    BALLAST_EXPECTS(speed >= 1 && speed <= std::numeric_limits<std::uint32_t>::max(), "bag ", index,
                    " has a speed of ", speed, ", which is not from 1 to ",
                    std::numeric_limits<std::uint32_t>::max());
    speeds_[index] = static_cast<std::uint32_t>(speed);
  }
}

[[nodiscard]] BALLAST_ONCE result<bag_spec> parse_bags(std::string_view text)
{
  detail::bag_parse const parsed = detail::parse_bag_text(text);
  if (parsed.readable) { return parsed.spec; }
  auto const refuse = [&](error_code code, char const* why) -> result<bag_spec> {
    return tl::unexpected(detail::text_error(code, text, parsed.position, why));
  };
  switch (parsed.fault) {
    case bag_spec::fault::zero:
      return refuse(error_code::out_of_range,
                    "a bag needs at least one GPU and a group at least one bag; remove the group "
                    "or write a number from 1");
    case bag_spec::fault::too_large:
      return refuse(error_code::out_of_range,
                    "more than 16777216 GPUs; write the bags of one replica only");
    case bag_spec::fault::too_many_groups:
      return refuse(error_code::out_of_range,
                    "more than 16 groups; join groups of the same size into one");
    case bag_spec::fault::none: break;
  }
  return refuse(error_code::syntax,
                "expected groups such as g1n2+g4n1 (two bags of one GPU, one bag of four)");
}

[[nodiscard]] BALLAST_ONCE bag_layout one_gpu_bags(std::size_t gpus)
{
  std::vector<bag> bags(gpus);
  for (std::size_t rank = 0; rank < gpus; ++rank) { bags[rank].first = to_id<rank_id>(rank); }
  return bag_layout(detail::span_of(bags));
}

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

[[nodiscard]] BALLAST_ONCE result<bag_layout> lay_out(bag_spec const& spec, cluster const& machines,
                                                      misplaced_bags misplaced)
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
  std::size_t const largest_node = nodes.largest();
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

[[nodiscard]] BALLAST_ONCE result<bag_layout> lay_out(bag_spec const& spec, std::size_t gpus,
                                                      misplaced_bags misplaced)
{
  auto const machines = cluster_of(gpus);
  if (!machines) { return tl::unexpected(machines.error()); }
  return lay_out(spec, *machines, misplaced);
}

#ifdef __cpp_exceptions
BALLAST_ONCE bag_layout::bag_layout(bag_spec const& spec, std::size_t gpus)
    : bag_layout(or_throw(lay_out(spec, gpus)))
{}
BALLAST_ONCE bag_layout::bag_layout(bag_spec const& spec, cluster const& machines)
    : bag_layout(or_throw(lay_out(spec, machines)))
{}
#endif

}  // namespace ballast::inline v0
