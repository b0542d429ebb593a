// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_EXCHANGE_COST_HPP
#define BALLAST_ROUTE_EXCHANGE_COST_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/topology/cluster.hpp>

#include <algorithm>

namespace ballast::inline v0 {

/// The cost of one exchange, in a few figures. A route and its reverse cost the same.
///
/// Units       bytes are whole numbers while they are below 2^53.
struct exchange_cost {
  double kept_share = 0;           ///< share of the tokens that enter no message; 1 without tokens
  double messages_mean = 0;        ///< that a rank sends; it receives as many on average
  double messages_max = 0;         ///< sent or received by one rank
  double bytes_mean = 0;           ///< that a rank sends; it receives as many on average
  double bytes_max = 0;            ///< sent or received by one rank
  double within_node_bytes = 0;    ///< that all ranks together send inside nodes
  double between_nodes_bytes = 0;  ///< that all ranks together send to other nodes
  double memory_bytes = 0;         ///< of the messages of the rank with most
  double seconds = 0;              ///< predicted

  friend bool operator==(exchange_cost const&, exchange_cost const&) = default;
};

/// Predicts the cost of a route on a cluster.
///
/// The predicted time is one latency plus the longest time, over all ranks, both directions and
/// both kinds of link, of bytes / bandwidth; 0 if nothing moves. It assumes that a rank sends and
/// receives at the same time, that the links inside a node and those between nodes work at the same
/// time, that all messages are in flight together, and that the network has full bisection
/// bandwidth. It does not include packing, unpacking and copies of rows that stay.
///
/// Units       bytes_per_token: of all arrays of the exchange together. The padding of at most 15
///             bytes for each array's part of a message is not counted.
/// Expects     bandwidths above 0; bytes_per_token >= 0.
/// Complexity  O(ranks).
[[nodiscard]] inline exchange_cost price_route(route_volume const& volume, cluster const& machines,
                                               double bytes_per_token)
{
  BALLAST_EXPECTS(volume.ranks.size() == machines.gpus(), "the route is over ",
                  detail::counted(volume.ranks.size(), "rank"), ", and the cluster has ",
                  detail::counted(machines.gpus(), "GPU"));
  BALLAST_EXPECTS(bytes_per_token >= 0, "a token has ", bytes_per_token,
                  " bytes, and the least is 0");
  auto const bytes = [&](tokens count) { return static_cast<double>(count) * bytes_per_token; };
  exchange_cost cost;
  for (auto const& [sent, received, kept] : volume.ranks) {
    cost.messages_mean += sent.messages;
    cost.within_node_bytes += bytes(sent.within_node);
    cost.between_nodes_bytes += bytes(sent.between_nodes);
    cost.memory_bytes = std::max(cost.memory_bytes, bytes(sent.all() + received.all()));
    for (rank_traffic const& side : {sent, received}) {
      cost.messages_max = std::max(cost.messages_max, static_cast<double>(side.messages));
      cost.bytes_max = std::max(cost.bytes_max, bytes(side.all()));
      cost.seconds = std::max(cost.seconds, transfer_seconds(machines, bytes(side.within_node),
                                                             bytes(side.between_nodes)));
    }
  }
  auto const ranks = static_cast<double>(volume.ranks.size());
  tokens const moved = volume.moved();
  tokens const kept = volume.kept();
  cost.messages_mean /= ranks;
  cost.bytes_mean = bytes(moved) / ranks;
  cost.kept_share =
      moved == 0 ? 1.0 : static_cast<double>(kept) / static_cast<double>(moved + kept);
  if (moved > 0) { cost.seconds += machines.latency_seconds; }
  return cost;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_EXCHANGE_COST_HPP
