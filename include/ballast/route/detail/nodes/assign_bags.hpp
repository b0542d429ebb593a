// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_ASSIGN_BAGS_HPP
#define BALLAST_ROUTE_DETAIL_NODES_ASSIGN_BAGS_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/detail/nodes/node_volumes.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Gives every batch a bag of its kind on its node: of all pairs of a batch and a bag, the one
/// where most tokens come from the bag's own GPUs, and so on with what is left; batches without a
/// token there stay in their own bag where it is free.
///
/// Shapes      node_of[m], bag_of[m]; bag_of is overwritten.
/// Expects     node_of gives every node as many batches of a kind as it has bags of it.
/// Complexity  O(E log E + m log m) for E pairs of a rank and a batch.
inline void assign_bags(node_volumes const& volumes, bag_layout const& bags,
                        std::span<std::uint32_t const> node_of, std::span<bag_id> bag_of,
                        workspace& memory)
{
  struct candidate {
    tokens kept;
    std::uint32_t batch;
    std::uint32_t bag;
  };
  std::size_t const batches = volumes.batches();
  auto scratch = memory.open();
  std::span<candidate> const candidates = scratch.take<candidate>(volumes.entries());
  std::size_t found = 0;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (volumes.kind_of(batch) == node_volumes::none) { continue; }
    std::size_t const first = found;
    for (batch_volume const& each : volumes.of_batch(batch, node_of[batch])) {
      auto const bag = static_cast<std::uint32_t>(bags.bag_of(rank_id{each.peer}));
      if (volumes.kind_of(bag) != volumes.kind_of(batch)) { continue; }
      bool const same = found > first && candidates[found - 1].bag == bag;
      if (!same) { candidates[found++] = {0, static_cast<std::uint32_t>(batch), bag}; }
      candidates[found - 1].kept += each.count;
    }
  }
  auto const best_first = candidates.first(found);
  std::sort(best_first.begin(), best_first.end(), [](candidate const& a, candidate const& b) {
    return precedes(b.kept, a.kept, a.batch, b.batch, a.bag, b.bag);
  });

  auto const nobody = to_id<bag_id>(batches);
  std::span<bool> const taken = scratch.take<bool>(batches);
  std::fill(taken.begin(), taken.end(), false);
  std::fill(bag_of.begin(), bag_of.end(), nobody);
  auto const take = [&](std::size_t batch, std::size_t bag) {
    if (bag_of[batch] != nobody || taken[bag]) { return; }
    bag_of[batch] = to_id<bag_id>(bag);
    taken[bag] = true;
  };
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (volumes.kind_of(batch) == node_volumes::none) { take(batch, batch); }
  }
  for (candidate const& each : best_first) { take(each.batch, each.bag); }
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (volumes.home_of(batch) == node_of[batch]) { take(batch, batch); }
  }

  // What is left: as many batches as bags of every kind on every node.
  std::span<std::uint32_t> const rest = scratch.take<std::uint32_t>(batches);
  std::span<std::uint32_t> const open = scratch.take<std::uint32_t>(batches);
  std::size_t left = 0;
  std::size_t empty = 0;
  for (std::size_t at = 0; at < batches; ++at) {
    if (bag_of[at] == nobody) { rest[left++] = static_cast<std::uint32_t>(at); }
    if (!taken[at]) { open[empty++] = static_cast<std::uint32_t>(at); }
  }
  auto const sort_by_place = [&](std::span<std::uint32_t> list, auto const& node_at) {
    std::sort(list.begin(), list.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(node_at(a), node_at(b), volumes.kind_of(a), volumes.kind_of(b), a, b);
    });
  };
  sort_by_place(rest.first(left), [&](std::uint32_t batch) { return node_of[batch]; });
  sort_by_place(open.first(empty), [&](std::uint32_t bag) { return volumes.home_of(bag); });
  for (std::size_t at = 0; at < left; ++at) { take(rest[at], open[at]); }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_NODES_ASSIGN_BAGS_HPP
