// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_TRANSFER_SECONDS_HPP
#define BALLAST_TOPOLOGY_TRANSFER_SECONDS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/topology/cluster.hpp>

#include <algorithm>

namespace ballast::inline v0 {

/// The time in which a GPU moves bytes over both kinds of links at once, without their latency.
///
/// Units       bytes, in one direction.
/// Expects     bandwidths above 0.
[[nodiscard]] inline double transfer_seconds(cluster const& machines, double within_node_bytes,
                                             double between_nodes_bytes)
{
  BALLAST_EXPECTS(
      machines.within_node_bytes_per_second > 0 && machines.between_nodes_bytes_per_second > 0,
      "the cluster moves ", machines.within_node_bytes_per_second, " bytes/s within nodes and ",
      machines.between_nodes_bytes_per_second, " between them, and both have to be above 0");
  return std::max(within_node_bytes / machines.within_node_bytes_per_second,
                  between_nodes_bytes / machines.between_nodes_bytes_per_second);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_TRANSFER_SECONDS_HPP
