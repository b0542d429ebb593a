// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>

#include <set>

namespace ballast::inline v0 {

/// The stages of a model of which a trainer has a graph of Boost: a vertex for each stage, an edge
/// from where activations leave to where they are needed. Vertices may be numbered in any order.
///
///     auto const stages = stages_of(model, [&](auto vertex) { return model[vertex].stage; },
///                                   [&](auto edge) { return model[edge].transfer; });
///
/// Shapes      stage_of(vertex) -> pipeline_stage; transfer_of(edge) -> time_units.
/// Expects     graph has lists of vertices and of out-edges, and an index of each vertex.
/// Ensures     (1) every link goes up: stages are numbered by a topological order, of stages that may
///                 be next the one with the lowest index first; so numbers that go up stay
///             (2) stage_of is called once for each vertex, in the order of the stages
/// Errors      infeasible: vertex `position` is in a cycle, or behind one; those of stage_graph::make.
/// Complexity  O((vertices + edges) log vertices).
/// Source      A. B. Kahn, "Topological sorting of large networks", 1962.
template <class Graph, class StageOf, class TransferOf>
[[nodiscard]] result<stage_graph> stages_of(Graph const& graph, StageOf const& stage_of,
                                            TransferOf const& transfer_of)
{
  auto const index = get(boost::vertex_index, graph);
  auto const count = static_cast<std::size_t>(num_vertices(graph));
  std::vector<typename boost::graph_traits<Graph>::vertex_descriptor> of_index(count);
  std::vector<std::size_t> feeders(count);  // that have no number yet
  auto const for_each_link = [&](auto vertex, auto const& visit) {
    for (auto [edge, end] = out_edges(vertex, graph); edge != end; ++edge) {
      visit(*edge, static_cast<std::size_t>(get(index, target(*edge, graph))));
    }
  };
  for (auto [each, end] = vertices(graph); each != end; ++each) {
    of_index[static_cast<std::size_t>(get(index, *each))] = *each;
    for_each_link(*each, [&](auto const&, std::size_t to) { ++feeders[to]; });
  }

  std::set<std::size_t> next;
  for (std::size_t each = 0; each < count; ++each) {
    if (feeders[each] == 0) { next.insert(each); }
  }
  std::vector<std::uint32_t> number(count);
  std::vector<pipeline_stage> stages;
  std::vector<std::size_t> order;
  while (!next.empty()) {
    std::size_t const now = *next.begin();
    next.erase(next.begin());
    number[now] = static_cast<std::uint32_t>(order.size());
    order.push_back(now);
    stages.push_back(stage_of(of_index[now]));
    for_each_link(of_index[now], [&](auto const&, std::size_t to) {
      if (--feeders[to] == 0) { next.insert(to); }
    });
  }
  if (order.size() < count) {
    auto const stuck =
        std::find_if(feeders.begin(), feeders.end(), [](auto left) { return left > 0; });
    auto const at = static_cast<std::size_t>(stuck - feeders.begin());
    return fail(error_code::infeasible, at, "vertex ", at,
                " waits for itself, or for a cycle before it; take an edge of the cycle away");
  }

  std::vector<stage_link> links;
  for (std::size_t const from : order) {
    for_each_link(of_index[from], [&](auto const& edge, std::size_t to) {
      links.push_back({stage_id{number[from]}, stage_id{number[to]}, transfer_of(edge)});
    });
  }
  return stage_graph::make(std::move(stages), links);
}

}  // namespace ballast::inline v0
