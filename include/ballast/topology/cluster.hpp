// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// How many GPUs every node of a job has. Without more it is one node of 8.
///
/// Ranks are numbered node by node, as torchrun, mpirun and Slurm do by default: the GPUs of node k
/// come after those of nodes 0 to k - 1.
///
/// Expects     at least one node, at least one GPU in each, and fewer than 2^32 GPUs.
/// Ensures     (1) a list of equal sizes is the same as `equal` of that size
///             (2) node_of(r) is the node whose ranks include r
///             (3) nodes of equal size take no memory beyond the object, so that copies are cheap
/// Complexity  construction from a list O(nodes); for nodes of equal size all else O(1); for others
///             node_of O(log nodes), smallest and largest O(nodes), all else O(1).
class node_sizes {
 public:
  node_sizes() = default;

  /// The sizes of the nodes, one by one.
  BALLAST_ONCE explicit node_sizes(std::span<std::uint32_t const> sizes);

  /// `nodes` nodes of `gpus` GPUs each.
  [[nodiscard]] BALLAST_ONCE static node_sizes equal(std::size_t nodes, std::size_t gpus);

  /// Number of nodes.
  [[nodiscard]] std::size_t size() const noexcept { return nodes_; }

  /// Number of GPUs in all nodes together.
  [[nodiscard]] std::size_t gpus() const noexcept { return start(nodes_); }

  /// Whether all nodes have as many GPUs.
  [[nodiscard]] bool all_equal() const noexcept { return size_ != 0; }

  /// GPUs of a node.
  [[nodiscard]] std::size_t operator[](node_id node) const
  {
    BALLAST_EXPECTS(to_index(node) < size(), "node ", node, " of a cluster of ", size());
    return start(to_index(node) + 1) - start(to_index(node));
  }

  /// The first rank of a node.
  [[nodiscard]] rank_id first(node_id node) const
  {
    BALLAST_EXPECTS(to_index(node) < size(), "node ", node, " of a cluster of ", size());
    return to_id<rank_id>(start(to_index(node)));
  }

  [[nodiscard]] BALLAST_ONCE node_id node_of(rank_id rank) const;

  /// GPUs of the node with fewest.
  [[nodiscard]] BALLAST_ONCE std::size_t smallest() const noexcept;

  /// GPUs of the node with most.
  [[nodiscard]] BALLAST_ONCE std::size_t largest() const noexcept;

  /// For messages: "8 GPUs", or "5 to 8 GPUs".
  [[nodiscard, gnu::cold]] BALLAST_ONCE std::string text() const;

  friend bool operator==(node_sizes const&, node_sizes const&) = default;

 private:
  /// Ranks before node `node`.
  [[nodiscard]] std::size_t start(std::size_t node) const noexcept
  {
    return all_equal() ? node * size_ : first_[node];
  }

  std::uint32_t nodes_ = 1;
  std::uint32_t size_ = 8;            // of every node; 0 where they differ
  std::vector<std::uint32_t> first_;  // first rank of each node, and their number; empty if equal
};

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
[[nodiscard]] BALLAST_ONCE result<cluster> cluster_of(std::size_t gpus,
                                                      std::size_t gpus_per_node = 8);

/// The cluster whose nodes have so many GPUs, one by one.
///
/// Errors      out_of_range: there is no node, node `position` has no GPU, or the GPUs up to it are
///             more than 2^24.
/// Complexity  O(nodes).
[[nodiscard]] BALLAST_ONCE result<cluster> cluster_of(std::span<std::uint32_t const> gpus_of_nodes);

/// The same, written out: `cluster_of({8, 8, 8, 8, 5})`.
[[nodiscard]] inline result<cluster> cluster_of(std::initializer_list<std::uint32_t> gpus_of_nodes)
{
  return cluster_of(std::span(gpus_of_nodes.begin(), gpus_of_nodes.size()));
}

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

#ifndef BALLAST_COMPILED

namespace ballast::inline v0 {

BALLAST_ONCE node_sizes::node_sizes(std::span<std::uint32_t const> sizes)
{
  BALLAST_EXPECTS(!sizes.empty(), "a cluster has no nodes");
  bool const alike = std::all_of(sizes.begin(), sizes.end(),
                                 [first = sizes.front()](auto size) { return size == first; });
  if (alike) {
    *this = equal(sizes.size(), sizes.front());
    return;
  }
  first_.reserve(sizes.size() + 1);
  std::uint64_t gpus = 0;
  for (std::uint32_t const size : sizes) {
    BALLAST_EXPECTS(size >= 1, "node ", first_.size(), " of a cluster has no GPUs");
    first_.push_back(static_cast<std::uint32_t>(gpus));
    gpus += size;
    BALLAST_EXPECTS(gpus <= std::numeric_limits<std::uint32_t>::max(),
                    "the nodes of a cluster up to node ", first_.size() - 1, " have ",
                    detail::counted(gpus, "GPU"), ", and there can be fewer than 2^32");
  }
  first_.push_back(static_cast<std::uint32_t>(gpus));
  nodes_ = static_cast<std::uint32_t>(sizes.size());
  size_ = 0;
}

[[nodiscard]] BALLAST_ONCE node_sizes node_sizes::equal(std::size_t nodes, std::size_t gpus)
{
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  BALLAST_EXPECTS(nodes >= 1 && gpus >= 1, "a cluster has ", nodes, " nodes of ",
                  detail::counted(gpus, "GPU"), " each, and the least of both is 1");
  BALLAST_EXPECTS(nodes <= most / gpus, "a cluster has ", nodes, " nodes of ",
                  detail::counted(gpus, "GPU"), " each, and there can be fewer than 2^32 GPUs");
  node_sizes sizes;
  sizes.nodes_ = static_cast<std::uint32_t>(nodes);
  sizes.size_ = static_cast<std::uint32_t>(gpus);
  return sizes;
}

[[nodiscard]] BALLAST_ONCE node_id node_sizes::node_of(rank_id rank) const
{
  std::size_t const index = to_index(rank);
  BALLAST_EXPECTS(index < gpus(), "rank ", rank, " of a cluster of ",
                  detail::counted(gpus(), "GPU"));
  if (all_equal()) { return to_id<node_id>(index / size_); }
  auto const next = std::upper_bound(first_.begin(), first_.end(), index);
  return to_id<node_id>(static_cast<std::size_t>(next - first_.begin()) - 1);
}

[[nodiscard]] BALLAST_ONCE std::size_t node_sizes::smallest() const noexcept
{
  std::size_t least = start(1);
  if (all_equal()) { return least; }
  for (std::size_t node = 1; node < size(); ++node) {
    least = std::min(least, start(node + 1) - start(node));
  }
  return least;
}

[[nodiscard]] BALLAST_ONCE std::size_t node_sizes::largest() const noexcept
{
  std::size_t most = start(1);
  if (all_equal()) { return most; }
  for (std::size_t node = 1; node < size(); ++node) {
    most = std::max(most, start(node + 1) - start(node));
  }
  return most;
}

[[nodiscard, gnu::cold]] BALLAST_ONCE std::string node_sizes::text() const
{
  if (!all_equal()) {
    return detail::concat(smallest(), " to ", detail::counted(largest(), "GPU"));
  }
  return detail::concat(largest(), largest() == 1 ? " GPU" : " GPUs");
}

[[nodiscard]] BALLAST_ONCE result<cluster> cluster_of(std::size_t gpus, std::size_t gpus_per_node)
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

[[nodiscard]] BALLAST_ONCE result<cluster> cluster_of(std::span<std::uint32_t const> gpus_of_nodes)
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

}  // namespace ballast::inline v0

#endif
