// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_RELIEVE_RANKS_HPP
#define BALLAST_ROUTE_DETAIL_NODES_RELIEVE_RANKS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/detail/nodes/largest_row.hpp>
#include <ballast/route/detail/nodes/node_assignment.hpp>
#include <ballast/route/detail/nodes/node_volumes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Calls visit(node, kept) for every node that has tokens of a batch, in node order.
template <class Visit>
void for_each_node_of(node_volumes const& volumes, std::size_t batch, Visit const& visit)
{
  auto const all = volumes.of_batch(batch);
  for (std::size_t at = 0; at < all.size();) {
    std::uint32_t const node = volumes.node_of_rank(all[at].peer);
    tokens kept = 0;
    for (; at < all.size() && volumes.node_of_rank(all[at].peer) == node; ++at) {
      kept += all[at].count;
    }
    visit(node, kept);
  }
}

/// Places all batches: the rank that would send most gets, on its node, the batch to which it would
/// send most, and so on. If every batch had tokens of one rank of a node only, nothing would be
/// better for that node by itself: each step takes what the largest row can lose at most.
///
/// Complexity  O((E + ranks + batches) log ranks) for E pairs of a rank and a batch.
inline void place_for_worst(node_assignment& where, workspace& memory)
{
  node_volumes const& volumes = where.volumes();
  auto scratch = memory.open();
  std::span<std::size_t> const next = scratch.take<std::size_t>(volumes.ranks());
  std::fill(next.begin(), next.end(), 0);

  auto const place_for_rank = [&](std::size_t rank) {
    std::uint32_t const node = volumes.node_of_rank(rank);
    auto const list = volumes.of_rank(rank);
    for (std::size_t& at = next[rank]; at < list.size(); ++at) {
      std::uint32_t const batch = list[at].peer;
      if (where.node_of(batch) == node_assignment::nowhere &&
          where.has_room(node, volumes.kind_of(batch))) {
        where.place(batch, node);
        return true;
      }
    }
    return false;
  };
  auto const place_where_most_stays = [&](std::size_t batch) {
    if (where.node_of(batch) != node_assignment::nowhere) { return false; }
    std::uint32_t best = node_assignment::nowhere;
    tokens most = 0;
    for_each_node_of(volumes, batch, [&](std::uint32_t node, tokens kept) {
      if (kept > most && where.has_room(node, volumes.kind_of(batch))) {
        most = kept;
        best = node;
      }
    });
    if (best != node_assignment::nowhere) { where.place(batch, best); }
    return best != node_assignment::nowhere;
  };
  while (where.largest() != largest_row::least) {
    std::size_t const row = where.worst_row();
    bool const placed =
        row < volumes.ranks() ? place_for_rank(row) : place_where_most_stays(row - volumes.ranks());
    if (!placed) { where.retire(row); }
  }

  for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {  // from which nobody gains
    if (where.node_of(batch) == node_assignment::nowhere &&
        where.has_room(volumes.home_of(batch), volumes.kind_of(batch))) {
      where.place(batch, volumes.home_of(batch));
    }
  }
  std::span<std::size_t> const room = scratch.take<std::size_t>(volumes.kinds());  // node, by kind
  std::fill(room.begin(), room.end(), 0);
  for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
    if (where.node_of(batch) != node_assignment::nowhere) { continue; }
    std::uint32_t const kind = volumes.kind_of(batch);
    while (!where.has_room(room[kind], kind)) { ++room[kind]; }
    where.place(batch, room[kind]);
  }
  where.compare_all_rows();
}

/// Exchanges batches of two nodes while that makes the largest row smaller: of all exchanges that
/// bring a batch to the node where it helps that row, the one that leaves the rows that it changes
/// lowest.
///
/// In, out     left: one step is an exchange that was looked at.
inline void exchange_for_worst(node_assignment& where, work_budget& left)
{
  node_volumes const& volumes = where.volumes();
  while (!left.spent()) {
    tokens best = where.largest();
    std::size_t brought = volumes.batches();
    std::size_t replaced = volumes.batches();
    auto const try_all = [&](std::size_t batch, std::size_t node) {
      for (std::uint32_t const other : where.batches_on(node, volumes.kind_of(batch))) {
        if (left.spent()) { return; }
        left.spend(1);
        tokens const after = where.largest_after_swap(batch, other);
        if (after < best) {
          best = after;
          brought = batch;
          replaced = other;
        }
      }
    };
    std::size_t const row = where.worst_row();
    if (row < volumes.ranks()) {
      tokens const before = where.largest();
      std::uint32_t const node = volumes.node_of_rank(row);
      for (batch_volume const& each : volumes.of_rank(row)) {
        if (before - each.count >= best) { break; }  // nor do those of which it has less
        if (where.node_of(each.peer) != node) { try_all(each.peer, node); }
      }
    } else {
      std::size_t const batch = row - volumes.ranks();
      if (volumes.kind_of(batch) == node_volumes::none) { return; }
      for_each_node_of(volumes, batch, [&](std::uint32_t node, tokens) {
        if (where.node_of(batch) != node) { try_all(batch, node); }
      });
    }
    if (brought == volumes.batches()) { return; }
    where.swap(brought, replaced);
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_NODES_RELIEVE_RANKS_HPP
