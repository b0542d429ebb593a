// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_NODE_TRAFFIC_BOUND_HPP
#define BALLAST_ROUTE_NODE_TRAFFIC_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/detail/nodes/node_cover.hpp>
#include <ballast/route/detail/nodes/node_prices.hpp>
#include <ballast/route/detail/nodes/node_volumes.hpp>
#include <ballast/route/detail/nodes/relieve_ranks.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/text/detail/counted.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0 {

/// Tokens between nodes that the rank with most has at least, however the bags of one size and
/// speed exchange what a plan gives them: what node_placement::largest is compared with. It does
/// not depend on the order in which equal bags have their batches now, so it may be taken before or
/// after place_by_node, and off the step.
///
/// It is the larger of two bounds. (a) Every node by itself, as if it chose its batches first, in
/// whole batches: near the optimum where a batch has samples of few ranks of a node. (b) All nodes
/// at once, in the mean of weighted rows: better where every batch has samples of every node.
///
/// Expects     a plan for these bags, of the samples of `from`, over the GPUs of `machines`.
/// Ensures     (1) no order of equal bags has a smaller largest row
///             (2) it is the same before and after place_by_node
/// Complexity  `work` steps, each an entry that is looked at, and O(samples + pieces + E log E).
[[nodiscard]] inline tokens node_traffic_bound(partition_plan const& plan, placement const& from,
                                               bag_layout const& bags, cluster const& machines,
                                               node_traffic traffic = {},
                                               std::uint64_t work = std::uint64_t{1} << 23)
{
  BALLAST_EXPECTS(from.ranks() == machines.gpus() && bags.gpus() == machines.gpus(),
                  "tokens lie on ", detail::counted(from.ranks(), "rank"), ", the bags have ",
                  detail::counted(bags.gpus(), "GPU"), ", and the cluster has ", machines.gpus());
  BALLAST_EXPECTS(plan.bags_digest == bags.digest() && plan.owner.size() == from.size(),
                  "the plan is for other bags, or for ",
                  detail::counted(plan.owner.size(), "sample"), " and not ", from.size());
  workspace memory;
  auto scratch = memory.open();
  detail::node_volumes const volumes(from, detail::span_of(plan.owner), bags, machines, scratch);
  tokens bound = 0;
  for (std::size_t rank = 0; rank < volumes.ranks(); ++rank) {
    bound = std::max(bound, volumes.fixed_of(rank));
  }
  if (traffic.count_received) {
    for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
      tokens most = 0;
      detail::for_each_node_of(volumes, batch,
                               [&](std::uint32_t, tokens kept) { most = std::max(most, kept); });
      auto const gpus = static_cast<tokens>(volumes.gpus_of(batch));
      bound = std::max(bound, (volumes.received_by(batch) - most + gpus - 1) / gpus);
    }
  }
  // Nodes with the rank that sends most first: what they prove spares the others a search.
  std::span<std::size_t> const order = scratch.take<std::size_t>(volumes.nodes());
  std::span<tokens> const most = scratch.take<tokens>(volumes.nodes());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::fill(most.begin(), most.end(), 0);
  for (std::size_t rank = 0; rank < volumes.ranks(); ++rank) {
    tokens& of_node = most[volumes.node_of_rank(rank)];
    of_node = std::max(of_node, volumes.sent_by(rank) + volumes.fixed_of(rank));
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return detail::precedes(most[b], most[a], a, b); });
  detail::work_budget left(work / 2);
  for (std::size_t const node : order) {
    auto of_node = memory.open();
    bound = std::max(bound, detail::node_cover(volumes, node, of_node).least_largest(bound, left));
  }
  std::uint64_t const entries = volumes.entries() + volumes.ranks() + 1;
  detail::node_prices prices(volumes, traffic.count_received, scratch);
  return std::max(bound, prices.bound(work / 2 / entries));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_NODE_TRAFFIC_BOUND_HPP
