// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/exception.hpp>
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
/// Ensures     a vertex for every task. The graph may have cycles: simulate_by_graph() refuses
///             them.
/// Errors      infeasible: pipeline rank `position` lists a task that it does not have, or one
///             twice, or lacks one, or has no list.
/// Complexity  O(t log t) for t tasks and links of microbatches.
[[nodiscard]] inline ballast::result<task_graph> make_task_graph(
    ballast::stage_graph const& stages, ballast::pipeline_schedule const& schedule)
{
  using vertex = task_graph::vertex_descriptor;
  auto const refuse = [](std::size_t rank, std::string const& why) {
    return ballast::fail(ballast::error_code::infeasible, rank, "pipeline rank ", rank, why);
  };
  if (schedule.ranks.size() != stages.ranks()) {
    return refuse(std::min(schedule.ranks.size(), stages.ranks()),
                  " has only a list of tasks or only stages; write one list per rank");
  }
  ballast::result<task_graph> graph;  // in place, since moving a graph of Boost copies it
  std::map<std::tuple<ballast::stage_id, ballast::pass, std::uint32_t>, vertex> number;
  for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
    for (std::size_t turn = 0; turn < schedule.ranks[rank].size(); ++turn) {
      ballast::pipeline_task const& task = schedule.ranks[rank][turn];
      bool const its_own = task.position < schedule.microbatches &&
                           ballast::to_index(task.stage) < stages.stages() &&
                           ballast::to_index(stages[task.stage].rank) == rank &&
                           (task.pass == ballast::pass::forward || stages[task.stage].backward);
      vertex const added = boost::add_vertex(task, *graph);
      if (!its_own ||
          !number.emplace(std::tuple(task.stage, task.pass, task.position), added).second) {
        return refuse(rank, " lists a task that is not its own, or twice; leave it out");
      }
      if (turn > 0) { boost::add_edge(added - 1, added, 0, *graph); }
    }
  }
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    auto const& [rank, backward, part] = stages[ballast::to_id<ballast::stage_id>(stage)];
    for (std::uint32_t position = 0; position < schedule.microbatches; ++position) {
      auto const forward =
          number.find({ballast::to_id<ballast::stage_id>(stage), ballast::pass::forward, position});
      auto const back = number.find(
          {ballast::to_id<ballast::stage_id>(stage), ballast::pass::backward, position});
      if (forward == number.end() || (backward && back == number.end())) {
        return refuse(ballast::to_index(rank), " lacks a pass of microbatch " +
                                                   std::to_string(position) + " through stage " +
                                                   std::to_string(stage) + "; add it");
      }
      if (backward) { boost::add_edge(forward->second, back->second, 0, *graph); }
    }
  }
  for (auto const& [from, to, transfer] : stages.links()) {
    for (std::uint32_t position = 0; position < schedule.microbatches; ++position) {
      boost::add_edge(number.at({from, ballast::pass::forward, position}),
                      number.at({to, ballast::pass::forward, position}), transfer, *graph);
      if (stages[from].backward) {
        boost::add_edge(number.at({to, ballast::pass::backward, position}),
                        number.at({from, ballast::pass::backward, position}), transfer, *graph);
      }
    }
  }
  return graph;
}

/// Simulates a schedule by longest paths. The tests compare simulate() with it.
///
/// Shapes      order[microbatches]: the microbatch at each position.
/// Expects     times and order are such as simulate() expects for the schedule.
/// Ensures     (1) a task starts at the length of the longest path to it
///             (2) the durations and the transfers of critical_path add up to the makespan
/// Errors      infeasible: the schedule deadlocks, since the graph has a cycle; compiled_schedule
///             names it.
/// Complexity  O(vertices + edges).
[[nodiscard]] inline ballast::result<graph_timeline> simulate_by_graph(
    task_graph const& graph, ballast::pipeline_times const& times,
    std::span<ballast::microbatch_id const> order)
{
  using vertex = task_graph::vertex_descriptor;
  std::vector<vertex> backwards;  // Boost writes the last vertex first
  try {
    boost::topological_sort(graph, std::back_inserter(backwards));
  } catch (boost::not_a_dag const&) {
    return ballast::fail(ballast::error_code::infeasible, 0,
                         "the schedule deadlocks, since tasks wait for each other in a circle; "
                         "compiled_schedule::make names them");
  }
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
