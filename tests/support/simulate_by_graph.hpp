// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>

#include <iterator>
#include <map>
#include <tuple>

namespace ballast_test {

/// Which tasks of a schedule wait for which: an edge runs from a task to one that waits for it, and
/// weighs the transfer between them. Vertices are numbered rank after rank, in the order in which a
/// rank does its tasks.
using task_graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, ballast::pipeline_task,
                          boost::property<boost::edge_weight_t, ballast::time_units>>;

/// When each task of a graph runs.
struct graph_timeline {
  std::vector<ballast::time_units> start;  ///< by vertex
  std::vector<ballast::time_units> end;    ///< by vertex
  ballast::time_units makespan = 0;
  std::vector<task_graph::vertex_descriptor> critical_path;  ///< one longest path, first to last
};

/// A schedule as a graph of Boost, for its algorithms.
///
/// It shares no code with the headers of pipeline/ that check, compile or simulate a schedule, so
/// that tests can compare the two.
///
/// Expects     the schedule is one for the stages, with every task once.
/// Ensures     a vertex for every task. The graph has a cycle where the schedule deadlocks.
/// Complexity  O(t log t) for t tasks and links of microbatches.
[[nodiscard]] inline task_graph make_task_graph(ballast::stage_graph const& stages,
                                                ballast::pipeline_schedule const& schedule)
{
  using ballast::pass;
  task_graph graph;
  std::map<std::tuple<ballast::stage_id, pass, std::uint32_t>, task_graph::vertex_descriptor>
      number;
  for (auto const& tasks : schedule.ranks) {
    for (std::size_t turn = 0; turn < tasks.size(); ++turn) {
      auto const added = boost::add_vertex(tasks[turn], graph);
      number[{tasks[turn].stage, tasks[turn].pass, tasks[turn].position}] = added;
      if (turn > 0) { boost::add_edge(added - 1, added, 0, graph); }
    }
  }
  for (std::uint32_t position = 0; position < schedule.microbatches; ++position) {
    for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
      auto const id = ballast::to_id<ballast::stage_id>(stage);
      if (!stages[id].backward) { continue; }
      boost::add_edge(number.at({id, pass::forward, position}),
                      number.at({id, pass::backward, position}), 0, graph);
    }
    for (auto const& [from, to, transfer] : stages.links()) {
      boost::add_edge(number.at({from, pass::forward, position}),
                      number.at({to, pass::forward, position}), transfer, graph);
      if (!stages[from].backward) { continue; }
      boost::add_edge(number.at({to, pass::backward, position}),
                      number.at({from, pass::backward, position}), transfer, graph);
    }
  }
  return graph;
}

/// Simulates a schedule by longest paths. The tests compare simulate() with it.
///
/// Shapes      order[microbatches]: the microbatch at each position.
/// Expects     times and order are such as simulate() expects for the schedule, which does not
///             deadlock.
/// Ensures     (1) a task starts at the length of the longest path to it
///             (2) the durations and the transfers of critical_path add up to the makespan
/// Complexity  O(vertices + edges).
[[nodiscard]] inline graph_timeline simulate_by_graph(task_graph const& graph,
                                                      ballast::pipeline_times const& times,
                                                      std::span<ballast::microbatch_id const> order)
{
  using vertex = task_graph::vertex_descriptor;
  std::vector<vertex> backwards;  // Boost writes the last vertex first
  boost::topological_sort(graph, std::back_inserter(backwards));
  std::size_t const tasks = boost::num_vertices(graph);
  graph_timeline timeline{
      std::vector<ballast::time_units>(tasks), std::vector<ballast::time_units>(tasks), 0, {}};
  vertex const nothing = task_graph::null_vertex();
  std::vector<vertex> last_wait(tasks, nothing);
  vertex last = nothing;
  for (; !backwards.empty(); backwards.pop_back()) {
    vertex const at = backwards.back();
    for (auto [edge, none] = boost::in_edges(at, graph); edge != none; ++edge) {
      vertex const other = boost::source(*edge, graph);
      ballast::time_units const ready =
          timeline.end[other] + boost::get(boost::edge_weight, graph, *edge);
      if (last_wait[at] == nothing || ready > timeline.start[at]) {
        timeline.start[at] = ready;
        last_wait[at] = other;
      }
    }
    auto const& [position, stage, direction] = graph[at];
    ballast::stage_time const& time = times[order[position]][ballast::to_index(stage)];
    timeline.end[at] =
        timeline.start[at] + (direction == ballast::pass::forward ? time.forward : time.backward);
    if (last == nothing || timeline.end[at] > timeline.makespan) {
      timeline.makespan = timeline.end[at];
      last = at;
    }
  }
  for (; last != nothing; last = last_wait[last]) { timeline.critical_path.push_back(last); }
  std::reverse(timeline.critical_path.begin(), timeline.critical_path.end());
  return timeline;
}

}  // namespace ballast_test
