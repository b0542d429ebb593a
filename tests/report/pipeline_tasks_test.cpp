#include <ballast/report/pipeline_tasks.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <vector>

namespace {

using ballast::compiled_schedule;
using ballast::microbatch_id;
using ballast::pipeline_timeline;
using ballast::report::pipeline_tasks;
using ballast::report::task_entry;

TEST(PipelineTasks, StandBesideTheSimulation)  // Ensures (1)
{
  auto const schedule = compiled_schedule::make(ballast::chain_of_stages(2, 2),
                                                ballast::one_forward_one_backward{}, 2)
                            .value();
  pipeline_timeline measured;
  for (std::size_t task = 0; task < schedule.tasks().size(); ++task) {
    measured.start.push_back(static_cast<std::int64_t>(100 * task));
    measured.end.push_back(static_cast<std::int64_t>(100 * task + 50));
  }
  pipeline_timeline simulated = measured;
  for (auto& time : simulated.start) { time /= 50; }
  for (auto& time : simulated.end) { time /= 50; }
  std::vector<microbatch_id> const order{microbatch_id{1}, microbatch_id{0}};
  auto const all = pipeline_tasks(schedule, order, measured, simulated, 10);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(all.front().microbatch, 1U);
  EXPECT_FALSE(all.front().is_backward);
  EXPECT_TRUE(all.back().is_backward);
  std::vector<std::uint32_t> ranks;
  for (task_entry const& each : all) {
    ranks.push_back(each.rank);
    EXPECT_EQ(each.end - each.start, 50);
    EXPECT_EQ(each.simulated_end, 10 * (each.end / 50));
  }
  EXPECT_THAT(ranks, testing::ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(PipelineTasks, AreThoseThatRan)
{
  auto const schedule = compiled_schedule::make(ballast::chain_of_stages(1, 1),
                                                ballast::one_forward_one_backward{}, 1)
                            .value();
  pipeline_timeline measured;
  measured.start.assign(2, 0);
  measured.end.assign(2, 0);
  std::uint32_t const forward = schedule.tasks_on(ballast::pipeline_rank{0})[0];
  measured.end[forward] = 7;
  std::vector<microbatch_id> const order{microbatch_id{0}};
  EXPECT_THAT(pipeline_tasks(schedule, order, measured),
              testing::ElementsAre(task_entry{0, 0, 0, false, 0, 7, 0, 0}));
}

TEST(PipelineTasksDeathTest, NeedTheOrderThatRan)
{
  auto const schedule = compiled_schedule::make(ballast::chain_of_stages(1, 1),
                                                ballast::one_forward_one_backward{}, 2)
                            .value();
  pipeline_timeline measured;
  measured.start.assign(4, 0);
  measured.end.assign(4, 5);
  std::vector<microbatch_id> const order{microbatch_id{0}};
  EXPECT_DEATH((void)pipeline_tasks(schedule, order, measured),
               "position 1 ran, and the order has 1 microbatch");
}

}  // namespace
