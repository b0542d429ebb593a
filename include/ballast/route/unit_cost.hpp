// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_UNIT_COST_HPP
#define BALLAST_ROUTE_UNIT_COST_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/exchange_cost.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/route/unit_placement.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/topology/cluster.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace ballast::inline v0 {

/// The cost of an exchange between units, in a few figures; forward and backward cost the same.
///
/// Units       bytes are whole numbers while they are below 2^53.
struct unit_cost {
  double messages = 0;             ///< of all ranks
  double messages_max = 0;         ///< sent or received by one rank
  double bytes = 0;                ///< that all ranks send
  double bytes_max = 0;            ///< sent or received by one rank
  double within_node_bytes = 0;    ///< that all ranks send inside nodes
  double between_nodes_bytes = 0;  ///< that all ranks send to other nodes
  double memory_bytes = 0;         ///< of messages and of what is gathered, on the rank with most
  double seconds = 0;              ///< predicted

  friend bool operator==(unit_cost const&, unit_cost const&) = default;
};

/// Predicts the cost of an exchange between units, to compare strategies.
///
/// Through brokers there are two exchanges, one after the other: the time is the sum of what
/// price_route() predicts for each, and so has its assumptions. A rank's messages and bytes are
/// those of both.
///
/// Units       bytes_per_token: of all arrays together.
/// Expects     what plan_units_into() expects; ranks are the GPUs of `machines`.
/// Complexity  O(samples + pieces of both + ranks).
[[nodiscard]] inline unit_cost price_units(placement const& from, placement const& to,
                                           unit_pair units, unit_strategy strategy,
                                           cluster const& machines, double bytes_per_token)
{
  unit_cost cost;
  workspace memory;
  placement gathered;
  std::array<route_volume, 2> volumes;
  if (strategy == unit_strategy::direct) {
    measure_route_into(volumes[0], memory, from, to, machines);
    volumes[1].ranks.resize(from.ranks());
  } else {
    place_on_brokers(gathered, memory, to, units.receivers, brokers_of(units, strategy));
    measure_route_into(volumes[0], memory, from, gathered, machines);
    measure_route_into(volumes[1], memory, gathered, to, machines);
  }
  for (route_volume const& volume : volumes) {
    exchange_cost const part = price_route(volume, machines, bytes_per_token);
    cost.within_node_bytes += part.within_node_bytes;
    cost.between_nodes_bytes += part.between_nodes_bytes;
    cost.seconds += part.seconds;
  }
  cost.bytes = cost.within_node_bytes + cost.between_nodes_bytes;
  for (std::size_t rank = 0; rank < from.ranks(); ++rank) {
    auto const& [sent, received, kept] = volumes[0].ranks[rank];
    auto const& [sent_on, received_on, kept_on] = volumes[1].ranks[rank];
    cost.messages += sent.messages + sent_on.messages;
    auto const bytes = [&](tokens count) { return static_cast<double>(count) * bytes_per_token; };
    cost.messages_max =
        std::max({cost.messages_max, static_cast<double>(sent.messages + sent_on.messages),
                  static_cast<double>(received.messages + received_on.messages)});
    cost.bytes_max = std::max({cost.bytes_max, bytes(sent.all() + sent_on.all()),
                               bytes(received.all() + received_on.all())});
    tokens const middle =
        strategy == unit_strategy::direct ? 0 : gathered.rows(to_id<rank_id>(rank));
    cost.memory_bytes =
        std::max(cost.memory_bytes,
                 bytes(sent.all() + sent_on.all() + received.all() + received_on.all() + middle));
  }
  return cost;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_UNIT_COST_HPP
