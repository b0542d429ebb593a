// SPDX-License-Identifier: Apache-2.0
#include "../support/simulate_by_graph.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <boost/graph/graphviz.hpp>

namespace {

using namespace ballast;
using ballast_test::backward;
using ballast_test::forward;
using ballast_test::graph_timeline;
using ballast_test::task_graph;
using testing::ElementsAre;

// The longest of all transfers from one vertex to another.
time_units longest_wait(task_graph const& graph, std::size_t from, std::size_t to)
{
  time_units longest = -1;
  for (auto [edge, end] = boost::out_edges(from, graph); edge != end; ++edge) {
    if (boost::target(*edge, graph) == to) {
      longest = std::max(longest, boost::get(boost::edge_weight, graph, *edge));
    }
  }
  return longest;
}

TEST(SimulateByGraph, AgreesWithSimulateOnTenThousandPipelines)  // Ensures (1) (2)
{
  ballast::random_source random(20240607);
  ballast::workspace memory;
  for (int trial = 0; trial < ballast_test::trials_of(10'000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const graph = ballast_test::make_task_graph(stages, listed);
    auto const schedule = ballast::compiled_schedule::make(stages, listed);
    ASSERT_TRUE(schedule);
    // Ties and tasks that take no time, or times as long as they may be.
    time_units const longest =
        random.below(4) > 0 ? random.between(0, 20) : ballast::stage_graph::longest_time;
    auto const times = ballast_test::random_times(random, *schedule, longest);
    ASSERT_TRUE(ballast::check_times(times, *schedule));
    auto order = ballast_test::numbered_order(listed.microbatches);
    random.shuffle(std::span(order));

    auto const fast = ballast::simulate(*schedule, times, order);
    auto const general = ballast_test::simulate_by_graph(graph, times, order);
    ASSERT_EQ(general.makespan, fast.makespan);
    ASSERT_EQ(ballast::makespan_of(*schedule, times, order, memory), fast.makespan);
    std::size_t vertex = 0;
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      time_units busy = 0;
      for (auto const task : schedule->tasks_on(ballast::to_id<pipeline_rank>(rank))) {
        ASSERT_EQ(graph[vertex], schedule->tasks()[task]);
        ASSERT_EQ(general.start[vertex], fast.start[task]);
        ASSERT_EQ(general.end[vertex], fast.end[task]);
        busy += fast.end[task] - fast.start[task];
        ++vertex;
      }
      ASSERT_EQ(fast.busy[rank], busy);
    }
    ASSERT_EQ(vertex, boost::num_vertices(graph));

    auto const& path = general.critical_path;
    ASSERT_EQ(path.empty(), schedule->tasks().empty());
    time_units now = 0;
    for (std::size_t step = 0; step < path.size(); ++step) {
      if (step > 0) {
        time_units const transfer = longest_wait(graph, path[step - 1], path[step]);
        ASSERT_GE(transfer, 0);
        now += transfer;
      }
      ASSERT_EQ(now, general.start[path[step]]);
      now += ballast::detail::duration_of(graph[path[step]], times, order);
    }
    ASSERT_EQ(now, general.makespan);
  }
}

TEST(SimulateByGraph, ShowsTheStageThatIsTheBottleneck)
{
  auto const stages = ballast::chain_of_stages(3, 3, 1);
  auto const listed = ballast::one_forward_one_backward{}(stages, 3).value();
  ballast::pipeline_times const times(3, 3, [](std::size_t, std::size_t stage) {
    return stage == 1 ? ballast::stage_time{50, 100} : ballast::stage_time{1, 2};
  });
  auto const order = ballast_test::numbered_order(3);
  // [critical_path]
  auto const graph = ballast_test::make_task_graph(stages, listed);
  auto const timeline = ballast_test::simulate_by_graph(graph, times, order);
  std::vector<time_units> critical(stages.ranks(), 0);  // time on the path, by rank
  for (auto const vertex : timeline.critical_path) {
    auto const rank = stages[graph[vertex].stage].rank;
    critical[rank] += timeline.end[vertex] - timeline.start[vertex];
  }
  // [critical_path]
  EXPECT_EQ(timeline.makespan, 1 + 1 + 3 * 150 + 1 + 2);
  EXPECT_THAT(critical, ElementsAre(3, 450, 0));
  std::vector<pipeline_task> path;
  for (auto const vertex : timeline.critical_path) { path.push_back(graph[vertex]); }
  EXPECT_THAT(path, ElementsAre(forward(0, 0), forward(0, 1), forward(1, 1), backward(0, 1),
                                forward(2, 1), backward(1, 1), backward(2, 1), backward(2, 0)));
}

/// For `dot`: a box for each task with its times, an arrow for each wait, the critical path in red.
void write_dot(std::ostream& out, task_graph const& graph, graph_timeline const& timeline,
               std::span<microbatch_id const> order)
{
  std::vector<std::size_t> step(timeline.start.size(), 0);  // 1 more than the place in the path
  for (std::size_t at = 0; at < timeline.critical_path.size(); ++at) {
    step[timeline.critical_path[at]] = at + 1;
  }
  auto const box = [&](std::ostream& text, task_graph::vertex_descriptor vertex) {
    auto const& [position, stage, direction] = graph[vertex];
    text << "[label=\"microbatch " << ballast::to_index(order[position]) << "\\nstage "
         << ballast::to_index(stage)
         << (direction == ballast::pass::forward ? " forward" : " backward") << "\\n"
         << timeline.start[vertex] << " to " << timeline.end[vertex] << "\""
         << (step[vertex] > 0 ? ", color=red" : "") << "]";
  };
  auto const arrow = [&](std::ostream& text, task_graph::edge_descriptor edge) {
    std::size_t const from = step[boost::source(edge, graph)];
    bool const is_critical = from > 0 && step[boost::target(edge, graph)] == from + 1;
    text << "[" << (is_critical ? "color=red, " : "") << "label=\""
         << boost::get(boost::edge_weight, graph, edge) << "\"]";
  };
  boost::write_graphviz(out, graph, box, arrow,
                        [](std::ostream& text) { text << "rankdir=LR\nnode [shape=box]\n"; });
}

TEST(WriteDot, HasEveryTaskAndWaitAndTheCriticalPathInRed)
{
  auto const stages = ballast::chain_of_stages(2, 2, 5);
  auto const graph =
      ballast_test::make_task_graph(stages, ballast::one_forward_one_backward{}(stages, 2).value());
  auto const times = ballast_test::equal_times(2, 2, {10, 20});
  std::vector const order{microbatch_id{1}, microbatch_id{0}};
  auto const timeline = ballast_test::simulate_by_graph(graph, times, order);
  std::ostringstream dot;
  write_dot(dot, graph, timeline, order);
  std::string const text = dot.str();
  auto const count_of = [&text](std::string const& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) { ++count; }
    return count;
  };
  EXPECT_TRUE(text.starts_with("digraph")) << text;
  EXPECT_EQ(count_of("[label=\"microbatch "), boost::num_vertices(graph));
  EXPECT_EQ(count_of("->"), boost::num_edges(graph));
  EXPECT_EQ(count_of(", color=red]"), timeline.critical_path.size());
  EXPECT_THAT(text, testing::HasSubstr("microbatch 1\\nstage 0 forward\\n0 to 10"));
  EXPECT_THAT(text, testing::HasSubstr(std::to_string(timeline.makespan) + "\""));
  EXPECT_THAT(text, testing::HasSubstr("label=\"5\""));
}

}  // namespace
