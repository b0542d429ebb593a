// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_CLUSTER_HPP
#define BALLAST_TOPOLOGY_CLUSTER_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/detail/counted.hpp>
#include <ballast/topology/node_sizes.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// The machines of a job: how many GPUs every node has, how fast these compute, and how fast bytes
/// travel.
///
/// Shapes      gpu_speeds[gpus()] in rank order, or empty where all GPUs are equally fast; lay_out
///             checks them.
/// Units       speeds in any unit that is the same for all, for example percent of the fastest;
///             bandwidths in bytes per second, per GPU and direction; latency in seconds. The
///             defaults are the data sheet of an NVIDIA DGX H100: fourth-generation NVLink, 900
///             GB/s for both directions together, and one 400 Gb/s port per GPU between nodes.
struct cluster {
  node_sizes nodes = {};
  std::vector<std::uint32_t> gpu_speeds = {};
  double within_node_bytes_per_second = 450e9;
  double between_nodes_bytes_per_second = 50e9;
  double latency_seconds = 10e-6;

  [[nodiscard]] std::size_t gpus() const noexcept { return nodes.gpus(); }

  [[nodiscard]] node_id node_of(rank_id rank) const { return nodes.node_of(rank); }

  friend bool operator==(cluster const&, cluster const&) = default;
};

namespace detail {

/// A job has at most this many GPUs.
inline constexpr std::size_t most_gpus = std::size_t{1} << 24;

}  // namespace detail

/// The cluster of a job of `gpus` GPUs in nodes of `gpus_per_node`; a job smaller than a node is
/// one node of its own size.
///
/// Errors      infeasible: the GPUs do not fill whole nodes; out_of_range: a number is 0 or more
///             than 2^24.
[[nodiscard]] inline result<cluster> cluster_of(std::size_t gpus, std::size_t gpus_per_node = 8)
{
  if (gpus == 0 || gpus_per_node == 0 || gpus > detail::most_gpus ||
      gpus_per_node > detail::most_gpus) {
    return fail(error_code::out_of_range, 0, "a cluster of ", detail::counted(gpus, "GPU"),
                " in nodes of ", gpus_per_node, ": both numbers must be from 1 to 16777216");
  }
  std::size_t const per_node = gpus < gpus_per_node ? gpus : gpus_per_node;
  if (gpus % per_node != 0) {
    return fail(error_code::infeasible, 0, gpus, " GPUs do not fill nodes of ", per_node,
                "; use a multiple of ", per_node,
                ", list the nodes one by one, or say how many GPUs a node has");
  }
  cluster machines;
  machines.nodes = node_sizes::equal(gpus / per_node, per_node);
  return machines;
}

/// The cluster whose nodes have so many GPUs, one by one.
///
/// Errors      out_of_range: there is no node, node `position` has no GPU, or the GPUs up to it are
///             more than 2^24.
/// Complexity  O(nodes).
[[nodiscard]] inline result<cluster> cluster_of(std::span<std::uint32_t const> gpus_of_nodes)
{
  if (gpus_of_nodes.empty()) {
    return fail(error_code::out_of_range, 0, "a cluster has no node; list at least one");
  }
  std::size_t gpus = 0;
  for (std::size_t node = 0; node < gpus_of_nodes.size(); ++node) {
    if (gpus_of_nodes[node] == 0) {
      return fail(error_code::out_of_range, node, "node ", node, " has no GPU; leave it out");
    }
    gpus += gpus_of_nodes[node];
    if (gpus > detail::most_gpus) {
      return fail(error_code::out_of_range, node, "the nodes up to node ", node, " have ",
                  detail::counted(gpus, "GPU"),
                  ", and a job has at most 16777216; correct their sizes");
    }
  }
  cluster machines;
  machines.nodes = node_sizes(gpus_of_nodes);
  return machines;
}

/// The same, written out: `cluster_of({8, 8, 8, 8, 5})`.
[[nodiscard]] inline result<cluster> cluster_of(std::initializer_list<std::uint32_t> gpus_of_nodes)
{
  return cluster_of(std::span(gpus_of_nodes.begin(), gpus_of_nodes.size()));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_CLUSTER_HPP
