// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/successive_shortest_path_nonnegative_weights.hpp>

#include <map>
#include <tuple>

namespace ballast_test {

using ballast::bag;
using ballast::bag_id;
using ballast::piece;
using ballast::rank_id;
using ballast::sample_id;
using ballast::to_id;
using ballast::tokens;

/// The fewest tokens that all ranks together send to other nodes, over all orders of the bags of
/// one size and speed, by Boost's minimum-cost flow.
///
/// place_by_node has another aim, which is NP-hard: that the rank that sends most sends little.
/// This judges its plans: in total they send no fewer tokens than this, and in any order the rank
/// that sends most sends at least this total divided by the number of ranks. Where all batches have
/// one size and ranks share the links between nodes, the total itself is what counts.
///
/// Expects     a plan for these bags, of the samples of `from`, over the GPUs of `machines`.
/// Ensures     (1) no order of bags sends fewer tokens to other nodes. Samples of bags with GPUs of
///                 several nodes do not count, since these bags keep what they have
/// Complexity  O(m^2 k log m) for m bags and k nodes, so for small jobs; allocates its network.
[[nodiscard]] inline tokens least_node_traffic(ballast::partition_plan const& plan,
                                               ballast::placement const& from,
                                               ballast::bag_layout const& bags,
                                               ballast::cluster const& machines)
{
  using traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using capacity = boost::property<boost::edge_capacity_t, std::int64_t>;
  using reverse = boost::property<boost::edge_reverse_t, traits::edge_descriptor, capacity>;
  using residual = boost::property<boost::edge_residual_capacity_t, std::int64_t, reverse>;
  using weight = boost::property<boost::edge_weight_t, std::int64_t, residual>;
  using network =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, weight>;

  // Places of one kind on one node, and which bags are among them.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, std::int64_t> places;
  std::vector<bool> on_one_node(bags.size());
  for (std::size_t index = 0; index < bags.size(); ++index) {
    bag const each = bags[to_id<bag_id>(index)];
    auto const first = to_index(machines.node_of(each.first));
    auto const last_rank = to_id<rank_id>(to_index(each.first) + each.gpus - 1);
    on_one_node[index] = first == to_index(machines.node_of(last_rank));
    if (on_one_node[index]) { ++places[{each.gpus, bags.speeds()[index], first}]; }
  }
  std::size_t const nodes = machines.nodes.size();
  std::vector<std::vector<tokens>> held(bags.size(), std::vector<tokens>(nodes, 0));
  std::vector<tokens> all(bags.size(), 0);
  for (std::size_t sample = 0; sample < plan.owner.size(); ++sample) {
    std::size_t const batch = to_index(plan.owner[sample]);
    for (piece const& each : from[to_id<sample_id>(sample)]) {
      held[batch][to_index(machines.node_of(each.rank))] += each.count;
      all[batch] += each.count;
    }
  }

  network graph(bags.size() + places.size() + 2);
  std::size_t const source = bags.size() + places.size();
  std::size_t const sink = source + 1;
  auto const connect = [&graph](std::size_t a, std::size_t b, std::int64_t most, tokens moved) {
    auto const there = boost::add_edge(a, b, graph).first;
    auto const back = boost::add_edge(b, a, graph).first;
    boost::put(boost::edge_capacity, graph, there, most);
    boost::put(boost::edge_capacity, graph, back, 0);
    boost::put(boost::edge_weight, graph, there, moved);
    boost::put(boost::edge_weight, graph, back, -moved);
    boost::put(boost::edge_reverse, graph, there, back);
    boost::put(boost::edge_reverse, graph, back, there);
  };
  std::size_t place = bags.size();
  for (auto const& [kind, count] : places) {
    auto const [gpus, speed, node] = kind;
    for (std::size_t batch = 0; batch < bags.size(); ++batch) {
      bool const alike =
          on_one_node[batch] && bags.sizes()[batch] == gpus && bags.speeds()[batch] == speed;
      if (alike) { connect(batch, place, 1, all[batch] - held[batch][node]); }
    }
    connect(place++, sink, count, 0);
  }
  for (std::size_t batch = 0; batch < bags.size(); ++batch) {
    if (on_one_node[batch]) { connect(source, batch, 1, 0); }
  }
  boost::successive_shortest_path_nonnegative_weights(graph, source, sink);
  tokens total = 0;
  for (auto [edge, end] = boost::edges(graph); edge != end; ++edge) {
    std::int64_t const most = boost::get(boost::edge_capacity, graph, *edge);
    if (most == 0) { continue; }  // the reverse of another
    std::int64_t const used = most - boost::get(boost::edge_residual_capacity, graph, *edge);
    total += used * boost::get(boost::edge_weight, graph, *edge);
  }
  return total;
}

}  // namespace ballast_test
