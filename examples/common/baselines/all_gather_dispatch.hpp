// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/topology/cluster.hpp>

#include <cmath>
#include <cstring>

namespace baselines {

[[nodiscard]] inline ballast::tokens most_rows(ballast::placement const& where)
{
  ballast::tokens most = 0;
  for (std::size_t rank = 0; rank < where.ranks(); ++rank) {
    most = std::max(most, where.rows(ballast::to_id<ballast::rank_id>(rank)));
  }
  return most;
}

/// Predicts the cost of all_gather_dispatch(), the baseline of route().
///
/// An all-gather takes equal parts from all ranks, so every rank contributes as many rows as the
/// rank with most. The prediction is that of route_volume::price, for the best all-gather: the GPUs of a
/// node share out the parts of other nodes, so that every part enters a node once, and pass them on
/// inside the node. With R ranks on N nodes, a rank of a node of G then sends its part to N - 1
/// other nodes, receives R / G - 1 parts from these, and sends and receives R - R / G inside its
/// own. The time is that of the node with most GPUs inside nodes, and between them of the one with
/// fewest.
///
/// Units       those of route_volume::price.
/// Ensures     memory_bytes is (ranks + 1) parts: those of all ranks, and the rank's own padded
///             part
/// Complexity  O(ranks).
[[nodiscard]] inline ballast::route_volume::cost price_all_gather(ballast::placement const& from,
                                                                  ballast::cluster const& machines,
                                                                  double bytes_per_token)
{
  auto const ranks = static_cast<double>(machines.gpus());
  auto const nodes = static_cast<double>(machines.nodes.size());
  auto const most_gpus = static_cast<double>(machines.nodes.largest());
  auto const fewest_gpus = static_cast<double>(machines.nodes.smallest());
  double const part = static_cast<double>(most_rows(from)) * bytes_per_token;
  double const within_node = (ranks - nodes) * part;  // of the mean rank, as the next
  double const between_nodes = (nodes - 1) * part;

  ballast::route_volume::cost cost;
  cost.memory_bytes = (ranks + 1) * part;
  if (most_rows(from) == 0 || machines.gpus() == 1) {
    cost.kept_share = 1;
    return cost;
  }
  for (std::size_t node = 0; node < machines.nodes.size(); ++node) {
    auto const gpus = static_cast<double>(machines.nodes[ballast::to_id<ballast::node_id>(node)]);
    cost.messages_mean += gpus * (nodes - 1 + gpus - 1);
    double const received = std::ceil(ranks / gpus - 1) + gpus - 1;
    cost.messages_max = std::max({cost.messages_max, nodes - 1 + gpus - 1, received});
  }
  cost.messages_mean /= ranks;
  cost.bytes_mean = within_node + between_nodes;
  cost.bytes_max = std::max(cost.bytes_mean, (ranks - ranks / most_gpus) * part + between_nodes);
  cost.within_node_bytes = ranks * within_node;
  cost.between_nodes_bytes = ranks * between_nodes;
  cost.seconds = machines.latency_seconds +
                 ballast::transfer_seconds(machines, (ranks - ranks / most_gpus) * part,
                                           (ranks / fewest_gpus - 1) * part);
  return cost;
}

/// Moves arrays as route() does, without a plan: every rank gathers the rows of all ranks and keeps
/// its own. A baseline: memory and bytes grow with the number of ranks.
///
/// Collective: every rank calls it with the same two placements and with arrays of the same row
/// widths. All arrays are gathered at once.
///
/// Shapes      each array: from[from.rows(comm.rank())], to[to.rows(comm.rank())] rows.
/// Expects     placements of the same samples over the ranks of comm; arrays in host memory that do
///             not overlap.
/// Ensures     (1) every token's row is where `to` says, byte for byte
///             (2) the steady state allocates nothing
/// Errors      those of the communicator's all_gather and wait; the arrays' `to` is then
///             unspecified. mismatch, on every rank, where placements or widths differ.
/// Complexity  O(samples + pieces of both, x arrays) and the bytes of all ranks; comm.scratch holds
///             ranks + 1 padded parts.
/// Source      the baseline of B. Xiao, Y. Zheng et al., "OrchMLLM", arXiv 2503.23830.
template <ballast::communicator C, std::same_as<ballast::row_array>... Arrays>
[[nodiscard]] ballast::result<void> all_gather_dispatch(C& comm, ballast::placement const& from,
                                                        ballast::placement const& to,
                                                        Arrays const&... arrays)
{
  std::array<ballast::row_array, sizeof...(Arrays)> const all{arrays...};
  ballast::rank_id const self = comm.rank();
  ballast::tokens const rows = most_rows(from);
  std::size_t part = 0;  // bytes: array after array, each padded to the rank with most rows
  for (ballast::row_array const& array : all) {
    part += ballast::block_bytes(rows, array.row_bytes);
  }

  ballast::digest word;
  word.add(from.digest()).add(to.digest());
  for (ballast::row_array const& array : all) {
    word.add(array.row_bytes).add(array.element_bytes);
  }
  if (auto same = ballast::agree(comm, word.value(), "placements, or arrays' types and widths");
      !same) {
    return same;
  }

  std::span<std::byte> const memory = comm.scratch((comm.size() + 1) * part);
  std::span<std::byte> const own = memory.first(part);
  std::span<std::byte> const gathered = memory.subspan(part);
  std::size_t block = 0;
  for (ballast::row_array const& array : all) {
    if (!array.from.empty()) { std::memcpy(&own[block], array.from.data(), array.from.size()); }
    block += ballast::block_bytes(rows, array.row_bytes);
  }
  if (auto done = comm.all_gather(own, gathered); !done) { return done; }
  if (auto done = comm.wait(); !done) { return done; }

  for (std::size_t sample = 0; sample < from.size(); ++sample) {
    for (ballast::piece const& source : from[ballast::to_id<ballast::sample_id>(sample)]) {
      for (ballast::piece const& target : to[ballast::to_id<ballast::sample_id>(sample)]) {
        ballast::tokens const first = std::max(source.first, target.first);
        ballast::tokens const end =
            std::min(source.first + source.count, target.first + target.count);
        if (target.rank != self || first >= end) { continue; }
        auto const from_row = static_cast<std::size_t>(source.row + first - source.first);
        auto const to_row = static_cast<std::size_t>(target.row + first - target.first);
        std::size_t offset = ballast::to_index(source.rank) * part;
        for (ballast::row_array const& array : all) {
          std::memcpy(&array.to[to_row * array.row_bytes],
                      &gathered[offset + from_row * array.row_bytes],
                      static_cast<std::size_t>(end - first) * array.row_bytes);
          offset += ballast::block_bytes(rows, array.row_bytes);
        }
      }
    }
  }
  return {};
}

}  // namespace baselines
