// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_CLUSTER_HPP
#define BALLAST_TOPOLOGY_CLUSTER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ballast::inline v0 {

/// The machines of a job: nodes with the same number of GPUs each, and how fast bytes travel.
///
/// Ranks are numbered node by node, as torchrun, mpirun and Slurm do by default: GPU g of node k is
/// rank k * gpus_per_node + g.
///
/// Units       bandwidths in bytes per second, per GPU and direction; latency in seconds. The
///             defaults are the data sheet of an NVIDIA DGX H100: fourth-generation NVLink, 900
///             GB/s for both directions together, and one 400 Gb/s port per GPU between nodes.
struct cluster {
  std::uint32_t nodes = 1;
  std::uint32_t gpus_per_node = 8;
  double within_node_bytes_per_second = 450e9;
  double between_nodes_bytes_per_second = 50e9;
  double latency_seconds = 10e-6;

  [[nodiscard]] constexpr std::size_t gpus() const noexcept
  {
    return std::size_t{nodes} * gpus_per_node;
  }

  [[nodiscard]] constexpr node_id node_of(rank_id rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < gpus());
    return to_id<node_id>(to_index(rank) / gpus_per_node);
  }

  friend constexpr bool operator==(cluster const&, cluster const&) = default;
};

/// The cluster of a job of `gpus` GPUs in nodes of `gpus_per_node`; a job smaller than a node is
/// one node of its own size.
///
/// Errors      infeasible: the GPUs do not fill whole nodes; out_of_range: a number is 0 or more than
///             2^24.
[[nodiscard]] inline result<cluster> cluster_of(std::size_t gpus, std::size_t gpus_per_node = 8)
{
  constexpr std::size_t most = std::size_t{1} << 24;
  if (gpus == 0 || gpus_per_node == 0 || gpus > most || gpus_per_node > most) {
    return fail(error_code::out_of_range, 0,
                "a cluster of " + std::to_string(gpus) + " GPUs in nodes of " +
                    std::to_string(gpus_per_node) + ": both numbers must be from 1 to 16777216");
  }
  std::size_t const per_node = gpus < gpus_per_node ? gpus : gpus_per_node;
  if (gpus % per_node != 0) {
    return fail(error_code::infeasible, 0,
                std::to_string(gpus) + " GPUs do not fill nodes of " + std::to_string(per_node) +
                    "; use a multiple of " + std::to_string(per_node) +
                    " or say how many GPUs a node has");
  }
  cluster machines;
  machines.nodes = static_cast<std::uint32_t>(gpus / per_node);
  machines.gpus_per_node = static_cast<std::uint32_t>(per_node);
  return machines;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_CLUSTER_HPP
