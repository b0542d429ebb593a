#include "../support/simulate_by_graph.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace {

using ballast::chain_of_stages;
using ballast::microbatch_id;
using ballast::one_forward_one_backward;
using ballast::pass;
using ballast::pipeline_rank;
using ballast::pipeline_schedule;
using ballast::pipeline_task;
using ballast::pipeline_times;
using ballast::stage_graph;
using ballast::stage_id;
using ballast::time_units;
using ballast_test::make_task_graph;
using ballast_test::simulate_by_graph;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<microbatch_id> as_given(std::size_t microbatches)
{
  std::vector<microbatch_id> order(microbatches);
  for (std::size_t at = 0; at < microbatches; ++at) {
    order[at] = ballast::to_id<microbatch_id>(at);
  }
  return order;
}

std::vector<pipeline_task> all_tasks(ballast_test::task_graph const& graph)
{
  std::vector<pipeline_task> tasks;
  for (auto [at, end] = boost::vertices(graph); at != end; ++at) { tasks.push_back(graph[*at]); }
  return tasks;
}

// The weights of all edges from one vertex to another, in increasing order.
std::vector<time_units> waits(ballast_test::task_graph const& graph, std::size_t from,
                              std::size_t to)
{
  std::vector<time_units> weights;
  for (auto [edge, end] = boost::out_edges(from, graph); edge != end; ++edge) {
    if (boost::target(*edge, graph) == to) {
      weights.push_back(boost::get(boost::edge_weight, graph, *edge));
    }
  }
  std::ranges::sort(weights);
  return weights;
}

TEST(MakeTaskGraph, HasAnEdgeForEveryWait)
{
  auto const stages = chain_of_stages(2, 2, 3);
  auto const graph = make_task_graph(stages, one_forward_one_backward{}(stages, 2).value()).value();
  // Rank 0: F0 F1 B0 B1, numbers 0 to 3. Rank 1: F0 B0 F1 B1, numbers 4 to 7.
  ASSERT_EQ(boost::num_vertices(graph), 8U);
  EXPECT_EQ(graph[2], (pipeline_task{0, stage_id{0}, pass::backward}));
  EXPECT_EQ(graph[6], (pipeline_task{1, stage_id{1}, pass::forward}));
  EXPECT_THAT(waits(graph, 0, 1), ElementsAre(0));     // the next on its rank
  EXPECT_THAT(waits(graph, 0, 2), ElementsAre(0));     // its backward
  EXPECT_THAT(waits(graph, 0, 4), ElementsAre(3));     // the forward on stage 1
  EXPECT_THAT(waits(graph, 5, 2), ElementsAre(3));     // the gradient from there
  EXPECT_THAT(waits(graph, 4, 5), ElementsAre(0, 0));  // the next on its rank is its backward
  EXPECT_EQ(boost::num_edges(graph), 6U + 4U + 4U);
}

TEST(MakeTaskGraph, RefusesWhatIsNoScheduleForTheStages)
{
  auto const stages = chain_of_stages(2, 2);
  auto const good = one_forward_one_backward{}(stages, 2).value();
  ASSERT_TRUE(make_task_graph(stages, good));
  auto const refused = [&](stage_graph const& for_stages, pipeline_schedule const& schedule,
                           std::size_t rank, char const* why) {
    auto const graph = make_task_graph(for_stages, schedule);
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().code, ballast::error_code::infeasible);
    EXPECT_EQ(graph.error().position, rank);
    EXPECT_THAT(graph.error().message, HasSubstr(why));
    EXPECT_FALSE(ballast::compiled_schedule::make(for_stages, schedule));
  };
  auto wrong = good;
  wrong.ranks.pop_back();
  refused(stages, wrong, 1, "pipeline rank 1 has only a list of tasks or only stages");
  for (pipeline_task const task : {pipeline_task{2, stage_id{1}, pass::forward},
                                   {0, stage_id{2}, pass::forward},
                                   {0, stage_id{0}, pass::forward},
                                   {0, stage_id{1}, pass::forward}}) {
    wrong = good;
    wrong.ranks[1].push_back(task);
    refused(stages, wrong, 1, "pipeline rank 1 lists a task that is not its own, or twice");
  }
  wrong = good;
  wrong.ranks[0].pop_back();
  refused(stages, wrong, 0, "lacks a pass of microbatch 1 through stage 0");
  auto const frozen = stage_graph::make({{pipeline_rank{0}, false}, {pipeline_rank{1}}},
                                        {{stage_id{0}, stage_id{1}}})
                          .value();
  refused(frozen, good, 0, "lists a task that is not its own");
}

TEST(SimulateByGraph, AgreesWithSimulateOnTenThousandPipelines)  // Ensures (1) (2)
{
  ballast::random_source random(20240607);
  ballast::workspace memory;
  for (int trial = 0; trial < ballast_test::trials_of(10'000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const graph = make_task_graph(stages, listed);
    auto const schedule = ballast::compiled_schedule::make(stages, listed);
    ASSERT_TRUE(graph && schedule);
    // Ties and tasks that take no time, or times as long as they may be.
    time_units const longest =
        random.below(4) > 0 ? random.between(0, 20) : stage_graph::longest_time;
    pipeline_times times(listed.microbatches, stages.stages());
    for (auto& time : times.rows) {
      time = {random.between(0, longest), random.between(0, longest)};
    }
    ASSERT_TRUE(ballast::check_times(times, *schedule));
    auto order = as_given(listed.microbatches);
    random.shuffle(std::span(order));

    auto const fast = ballast::simulate(*schedule, times, order);
    auto const general = simulate_by_graph(*graph, times, order);
    ASSERT_TRUE(general);
    ASSERT_EQ(general->makespan, fast.makespan);
    ASSERT_EQ(ballast::makespan_of(*schedule, times, order, memory), fast.makespan);
    std::vector<pipeline_task> tasks;
    std::vector<time_units> start;
    std::vector<time_units> end;
    std::vector<time_units> busy;
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      busy.push_back(0);
      for (auto const task : schedule->tasks_on(ballast::to_id<pipeline_rank>(rank))) {
        tasks.push_back(schedule->tasks()[task]);
        start.push_back(fast.start[task]);
        end.push_back(fast.end[task]);
        busy.back() += fast.end[task] - fast.start[task];
      }
    }
    ASSERT_EQ(general->start, start);
    ASSERT_EQ(general->end, end);
    ASSERT_EQ(fast.busy, busy);
    ASSERT_TRUE(std::ranges::equal(tasks, all_tasks(*graph)));

    time_units now = 0;
    for (std::size_t step = 0; step < general->critical_path.size(); ++step) {
      std::size_t const at = general->critical_path[step];
      if (step > 0) {
        auto const weights = waits(*graph, general->critical_path[step - 1], at);
        ASSERT_FALSE(weights.empty());
        now += weights.back();
      }
      ASSERT_EQ(now, general->start[at]);
      now += ballast::detail::duration_of((*graph)[at], times, order);
    }
    ASSERT_EQ(now, general->makespan);
  }
}

// Two neighbours in the list of a rank swapped: some deadlock, some do not.
TEST(SimulateByGraph, RefusesTheDeadlocksThatCompilingRefuses)
{
  ballast::random_source random(5);
  int deadlocks = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto [stages, listed] = ballast_test::random_pipeline(random);
    auto& tasks = listed.ranks[random.below(listed.ranks.size())];
    if (tasks.size() < 2) { continue; }
    std::size_t const at = random.below(tasks.size() - 1);
    std::swap(tasks[at], tasks[at + 1]);
    auto const graph = make_task_graph(stages, listed).value();
    auto const simulated = simulate_by_graph(
        graph, pipeline_times(listed.microbatches, stages.stages()), as_given(listed.microbatches));
    ASSERT_EQ(simulated.has_value(), ballast::compiled_schedule::make(stages, listed).has_value());
    if (!simulated) {
      ++deadlocks;
      EXPECT_EQ(simulated.error().code, ballast::error_code::infeasible);
      EXPECT_THAT(simulated.error().message, HasSubstr("in a circle"));
    }
  }
  EXPECT_GT(deadlocks, 50);
  EXPECT_LT(deadlocks, 450);
}

TEST(SimulateByGraph, AnswersInTheVerticesOfTheGraph)
{
  auto const stages = chain_of_stages(2, 2, 1);
  auto const listed = one_forward_one_backward{}(stages, 2).value();
  pipeline_times times(2, 2);
  std::ranges::fill(times.rows, ballast::stage_time{2, 4});
  auto const order = as_given(2);
  // [by_graph]
  auto const graph = ballast_test::make_task_graph(stages, listed).value();
  auto const simulated = ballast_test::simulate_by_graph(graph, times, order).value();
  std::vector<pipeline_task> path;
  for (auto const vertex : simulated.critical_path) { path.push_back(graph[vertex]); }
  // [by_graph]
  EXPECT_EQ(simulated.makespan, 2 + 1 + 2 * (2 + 4) + 1 + 4);
  EXPECT_THAT(path, ElementsAre(pipeline_task{0, stage_id{0}, pass::forward},
                                pipeline_task{0, stage_id{1}, pass::forward},
                                pipeline_task{0, stage_id{1}, pass::backward},
                                pipeline_task{1, stage_id{1}, pass::forward},
                                pipeline_task{1, stage_id{1}, pass::backward},
                                pipeline_task{1, stage_id{0}, pass::backward}));
}

TEST(SimulateByGraph, TakesNoTimeForNothing)
{
  auto const stages = chain_of_stages(3, 3, 9);
  auto const graph = make_task_graph(stages, one_forward_one_backward{}(stages, 0).value()).value();
  auto const none = simulate_by_graph(graph, pipeline_times(0, 3), {}).value();
  EXPECT_TRUE(none.start.empty() && none.end.empty() && none.critical_path.empty());
  EXPECT_EQ(none.makespan, 0);
}

TEST(SimulateByGraph, ReturnsAPathWhereNothingTakesTime)
{
  auto const stages = chain_of_stages(1, 1);
  auto const graph = make_task_graph(stages, one_forward_one_backward{}(stages, 1).value()).value();
  auto const instant = simulate_by_graph(graph, pipeline_times(1, 1), as_given(1)).value();
  EXPECT_EQ(instant.makespan, 0);
  EXPECT_THAT(instant.critical_path, ElementsAre(0U));
}

}  // namespace
