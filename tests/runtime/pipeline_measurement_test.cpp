// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_measurement.hpp>

#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/topology/process_grid.hpp>

namespace {

using ballast::measured_task;
using ballast::thread_communicator;
using ballast::to_index;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MeasuredTimeline, JoinsReplicasAndLeavesOutWhatNobodyDid)
{
  // Tasks of a stage alone, two microbatches: forwards 0 and 1, then backwards.
  auto const schedule =
      ballast::compiled_schedule::make(ballast::chain_of_stages(1, 1), ballast::gpipe{}, 2).value();
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    bool const is_first = comm.rank() == ballast::rank_id{0};
    std::vector<measured_task> const own{{0, {}, is_first ? 10 : 12, 20},
                                         {1, {}, 30, is_first ? 50 : 45}};
    auto const found = ballast::measured_timeline(comm, schedule, own).value();
    EXPECT_THAT(found.start, ElementsAre(10, 30, 0, 0));
    EXPECT_THAT(found.end, ElementsAre(20, 50, 0, 0));
    EXPECT_THAT(found.busy, ElementsAre(30));
    EXPECT_EQ(found.makespan, 50);
  });
}

TEST(MeasuredTimeline, TellsAllRanksOfOtherSchedules)  // Errors
{
  auto const stages = ballast::chain_of_stages(2, 2);
  auto const grid = ballast::process_grid::make({{{1, 2, 1}}}).value();
  auto const one = ballast::compiled_schedule::make(stages, ballast::gpipe{}, 3).value();
  auto const other =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 3).value();
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    auto const& own = comm.rank() == ballast::rank_id{0} ? one : other;
    auto const timeline = ballast::measured_timeline(comm, own, {});
    ASSERT_FALSE(timeline);
    EXPECT_THAT(timeline.error().message, HasSubstr("disagree on the schedule (rank 1 differs"));
    auto const times = ballast::measured_microbatches(comm, grid, own, {});
    ASSERT_FALSE(times);
    EXPECT_THAT(times.error().message, HasSubstr("the grid or the schedule (rank 1 differs"));
  });
}

TEST(MeasuredTimeline, BreaksNoWaitOfItsSchedule)
{
  auto const job = toy::chain_job(3, 4);
  ballast::run_ranks(3, [&](thread_communicator& comm) {
    auto runner = ballast::pipeline_runner<>::make(job.setup, comm.rank()).value();
    ballast::or_throw(runner.plan(job.plan));
    toy::stage stage(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, stage));
    auto const& schedule = job.setup.schedule;
    auto const found = ballast::measured_timeline(comm, schedule, runner.measured()).value();
    for (std::size_t rank = 0; rank < 3; ++rank) {
      auto const tasks = schedule.tasks_on(ballast::to_id<ballast::pipeline_rank>(rank));
      for (std::size_t at = 1; at < tasks.size(); ++at) {
        EXPECT_LE(found.end[tasks[at - 1]], found.start[tasks[at]]);
      }
    }
    EXPECT_GT(found.makespan, 0);
  });
}

// Two groups: each of two encoders of one stage, and an LLM of two stages on two tensor ranks.
TEST(MeasuredMicrobatches, AreInTheOrderOfAScheduledStep)
{
  std::vector<ballast::unit_sizes> const modules{{4, 1, 1}, {2, 2, 2}};
  auto const grid = ballast::process_grid::make(modules).value();
  auto const stages =
      ballast::joined_stages({.encoders = {{1}}, .llm = {2}, .generators = {}}).value();
  auto const schedule = ballast::compiled_schedule::make(stages, ballast::gpipe{}, 2).value();
  ballast::run_ranks(grid.ranks(), [&](thread_communicator& comm) {
    auto const place = grid.place(comm.rank());
    ballast::pipeline_rank const rank{place.module == 0 ? 0 : 1 + place.pipeline};
    std::vector<measured_task> own;
    for (std::uint32_t const task :
         schedule.tasks_on(rank)) {  // 1 or 100 ns for each, and its rank
      auto const takes = schedule.tasks()[task].position == 0 ? 1 : 100;
      own.push_back({task, {}, 0, takes * static_cast<std::int64_t>(1 + to_index(comm.rank()))});
    }
    auto const found = ballast::measured_microbatches(comm, grid, schedule, own).value();
    // Ranks 0 to 3 encode; stages of LLM 0 are ranks 4, 5 and 6, 7; of LLM 1 8, 9 and 10, 11.
    std::vector<ballast::time_units> expected;
    for (int const slowest : {0, 1, 5, 7, 2, 3, 9, 11}) {
      expected.push_back(2 * (1 + slowest));
      expected.push_back(200 * (1 + slowest));
    }
    EXPECT_EQ(found, expected);
  });
}

}  // namespace
