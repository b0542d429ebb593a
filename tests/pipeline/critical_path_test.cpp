#include "../support/critical_path.hpp"
#include "../support/pipelines.hpp"
#include "../support/simulate_by_graph.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace {

using ballast::compiled_schedule;
using ballast::microbatch_id;
using ballast::pass;
using ballast::pipeline_task;
using ballast::pipeline_times;
using ballast::stage_id;
using ballast::time_units;
using ballast_test::backward;
using ballast_test::forward;
using testing::ElementsAre;

compiled_schedule one_forward_one_backward_chain(std::size_t microbatches, std::size_t stages,
                                                 time_units transfer)
{
  auto const chain = ballast::chain_of_stages(stages, stages, transfer);
  return compiled_schedule::make(chain, ballast::one_forward_one_backward{}, microbatches).value();
}

std::vector<pipeline_task> tasks_of(compiled_schedule const& schedule,
                                    std::vector<std::uint32_t> const& path)
{
  std::vector<pipeline_task> tasks;
  for (std::uint32_t const task : path) { tasks.push_back(schedule.tasks()[task]); }
  return tasks;
}

TEST(CriticalPath, LeadsToTheEndWithoutAGap)  // Ensures (1) (2)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const schedule = compiled_schedule::make(stages, listed).value();
    pipeline_times times(listed.microbatches, stages.stages());
    for (auto& time : times.rows) { time = {random.between(0, 9), random.between(0, 9)}; }
    std::vector<microbatch_id> order(listed.microbatches);
    for (std::size_t at = 0; at < order.size(); ++at) {
      order[at] = ballast::to_id<microbatch_id>(at);
    }
    random.shuffle(std::span(order));

    auto const timeline = ballast::simulate(schedule, times, order);
    auto const path = ballast_test::critical_path(schedule, timeline);
    ASSERT_EQ(path.empty(), schedule.tasks().empty());
    time_units now = 0;
    for (std::size_t step = 0; step < path.size(); ++step) {
      auto const waits = schedule.waits_for(path[step]);
      if (step == 0) {
        ASSERT_TRUE(waits.empty());
      } else {
        time_units transfer =
            -1;  // it may wait for a task twice: on its rank, and for what it sends
        for (auto const& wait : waits) {
          if (wait.task == path[step - 1]) { transfer = std::max(transfer, wait.transfer); }
        }
        ASSERT_GE(transfer, 0);
        now += transfer;
      }
      ASSERT_EQ(timeline.start[path[step]], now);
      now += ballast::detail::duration_of(schedule.tasks()[path[step]], times, order);
    }
    ASSERT_EQ(now, timeline.makespan);
    auto const graph = ballast_test::make_task_graph(stages, listed).value();
    ASSERT_EQ(ballast_test::simulate_by_graph(graph, times, order).value().makespan, now);
  }
}

TEST(CriticalPath, ShowsTheStageThatIsTheBottleneck)
{
  auto const schedule = one_forward_one_backward_chain(3, 3, 1);
  pipeline_times times(3, 3);
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    times.rows[row] = row % 3 == 1 ? ballast::stage_time{50, 100} : ballast::stage_time{1, 2};
  }
  std::vector const order{microbatch_id{0}, microbatch_id{1}, microbatch_id{2}};
  // [critical_path]
  auto const timeline = ballast::simulate(schedule, times, order);
  std::vector<time_units> critical(schedule.stages().ranks(), 0);  // time on the path, by rank
  for (std::uint32_t const task : ballast_test::critical_path(schedule, timeline)) {
    auto const rank = schedule.stages()[schedule.tasks()[task].stage].rank;
    critical[ballast::to_index(rank)] += timeline.end[task] - timeline.start[task];
  }
  // [critical_path]
  EXPECT_EQ(timeline.makespan, 1 + 1 + 3 * 150 + 1 + 2);
  EXPECT_THAT(critical, ElementsAre(3, 450, 0));
  EXPECT_THAT(tasks_of(schedule, ballast_test::critical_path(schedule, timeline)),
              ElementsAre(forward(0, 0), forward(0, 1), forward(1, 1), backward(0, 1),
                          forward(2, 1), backward(1, 1), backward(2, 1), backward(2, 0)));
}

TEST(CriticalPath, GivesTiesToItsOwnRankThenToTheLowestStage)  // Ensures (3)
{
  // Forward 2 reaches stage 1 when its backward 1 is done.
  auto const schedule = one_forward_one_backward_chain(3, 2, 0);
  std::vector const order{microbatch_id{0}, microbatch_id{1}, microbatch_id{2}};
  pipeline_times times(3, 2);
  std::ranges::fill(times.rows, ballast::stage_time{1, 1});
  EXPECT_THAT(tasks_of(schedule, ballast_test::critical_path(
                                     schedule, ballast::simulate(schedule, times, order))),
              ElementsAre(forward(0, 0), forward(0, 1), backward(0, 1), forward(1, 1),
                          backward(1, 1), forward(2, 1), backward(2, 1), backward(2, 0)));

  // Where nothing takes time all tasks end last.
  auto const instant = ballast::simulate(schedule, pipeline_times(3, 2), order);
  EXPECT_THAT(ballast_test::critical_path(schedule, instant), ElementsAre(0U));

  // Encoders 0 and 1 take equally long and feed stage 2.
  auto const stages =
      ballast::stage_graph::make({{ballast::pipeline_rank{0}, false},
                                  {ballast::pipeline_rank{1}, false},
                                  {ballast::pipeline_rank{2}, false}},
                                 {{stage_id{0}, stage_id{2}, 3}, {stage_id{1}, stage_id{2}, 3}})
          .value();
  auto const joined =
      compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 3).value();
  times = pipeline_times(3, 3);
  std::ranges::fill(times.rows, ballast::stage_time{7, 0});
  EXPECT_THAT(tasks_of(joined, ballast_test::critical_path(
                                   joined, ballast::simulate(joined, times, order))),
              ElementsAre(forward(0, 0), forward(0, 2), forward(1, 2), forward(2, 2)));
}

TEST(CriticalPath, IsEmptyWhereThereIsNothingToDo)  // Ensures (4)
{
  auto const schedule = one_forward_one_backward_chain(0, 3, 1);
  auto const timeline = ballast::simulate(schedule, pipeline_times(0, 3), {});
  EXPECT_TRUE(ballast_test::critical_path(schedule, timeline).empty());
}

}  // namespace
