// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulate_by_graph.hpp"  // defines: ballast_test::{graph_timeline, task_graph}

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <boost/graph/graphviz.hpp>

#include <ostream>

namespace ballast_test {

/// Writes a schedule in the language of Graphviz, by Boost's writer: a vertex for each task with
/// its microbatch, stage, pass and time, an edge for each wait, and the critical path in red.
/// `dot -Tsvg` draws it.
///
/// Shapes      order[microbatches], as the timeline was simulated with.
/// Expects     the timeline is what simulate_by_graph() made of the graph.
/// Units       times in that of pipeline_times.
/// Complexity  O(vertices + edges).
inline void write_graphviz(std::ostream& out, task_graph const& graph,
                           graph_timeline const& timeline,
                           std::span<ballast::microbatch_id const> order)
{
  std::vector<std::size_t> step(timeline.start.size(), 0);  // 1 more than the place in the path
  for (std::size_t at = 0; at < timeline.critical_path.size(); ++at) {
    step[timeline.critical_path[at]] = at + 1;
  }
  boost::write_graphviz(
      out, graph,
      [&](std::ostream& text, task_graph::vertex_descriptor vertex) {
        auto const& [position, stage, direction] = graph[vertex];
        text << "[label=\"microbatch " << ballast::to_index(order[position]) << "\\nstage "
             << ballast::to_index(stage)
             << (direction == ballast::pass::forward ? " forward" : " backward") << "\\n"
             << timeline.start[vertex] << " to " << timeline.end[vertex] << "\""
             << (step[vertex] > 0 ? ", color=red" : "") << "]";
      },
      [&](std::ostream& text, task_graph::edge_descriptor edge) {
        ballast::time_units const transfer = boost::get(boost::edge_weight, graph, edge);
        std::size_t const from = step[boost::source(edge, graph)];
        bool const is_critical = from > 0 && step[boost::target(edge, graph)] == from + 1;
        text << "[" << (is_critical ? "color=red" : "color=black");
        if (transfer > 0) { text << ", label=\"" << transfer << "\""; }
        text << "]";
      },
      [](std::ostream& text) { text << "rankdir=LR\nnode [shape=box]\n"; });
}

}  // namespace ballast_test
