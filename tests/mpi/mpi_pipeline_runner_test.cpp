// SPDX-License-Identifier: Apache-2.0
// Pipelines whose ranks are processes.
#include <ballast/runtime/pipeline_runner.hpp>

#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"  // defines: toy::{draw, stage, result_of_one_rank, ...}
#include "mpi_world.hpp"                // defines: ballast_test::{over_world, world_size}

#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast_test::over_world;
using ballast_test::world_size;
using namespace std::chrono_literals;

// Every process draws the same pipelines.
TEST(MpiPipelineRunner, HasTheGradientsOfOneRankBitForBit)
{
  std::size_t const size = world_size();
  auto comm = over_world();
  ballast::random_source random(4545);
  for (int trial = 0; trial < (size == 8 ? 200 : 50) && !HasFailure(); ++trial) {
    auto job = toy::draw(random, size);
    while (job.setup.grid.ranks() != size) { job = toy::draw(random, size); }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto runner = ballast::pipeline_runner<>::make(job.setup, comm.rank()).value();
    ballast::or_throw(runner.plan(job.plan));
    toy::stage stage(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, stage));
    toy::result_of_one_rank alone(job);
    EXPECT_EQ(runner.loss(), alone.loss);
    for (auto const& [where, gradient] : stage.found) { EXPECT_EQ(gradient, alone.found[where]); }
    std::erase_if(alone.found, [&](auto const& each) {
      return !std::ranges::count(job.order, job.plan.microbatch[each.first.second]);
    });
    double shared = stage.of_shared();
    ballast::or_throw(ballast::add_shared_gradients(
        comm, job.setup.grid, job.setup.schedule.stages(), job.sharing, std::span(&shared, 1)));
    if (stage.shares()) {
      EXPECT_EQ(shared, alone.of_shared(job, job.setup.grid.place(comm.rank()).data));
    }
  }
}

// The step is drained, and the next one runs on the same communicator.
TEST(MpiPipelineRunner, TellsAllProcessesWhichStageThrew)
{
  auto comm = over_world();
  auto const job = toy::chain_job(world_size(), 4);
  auto runner = ballast::pipeline_runner<>::make(job.setup, comm.rank()).value();
  ballast::or_throw(runner.plan(job.plan));
  rank_id const thrower{static_cast<std::uint32_t>(world_size() / 2)};
  for (std::size_t call = 0; call < 8; ++call) {
    toy::stage stage(job, comm.rank());
    if (comm.rank() == thrower) { stage.throws_at = call; }
    auto const done = runner.run(comm, job.order, stage);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::failed);
    EXPECT_EQ(done.error().ranks, std::vector{thrower});
    toy::stage next(job, comm.rank());
    ballast::or_throw(runner.run(comm, job.order, next));
  }
}

TEST(MpiPipelineRunner, NamesAProcessThatIsLateAndRunsOnANewCommunicator)
{
  if (world_size() < 2) { return; }
  auto const job = toy::chain_job(world_size(), 2);
  rank_id const late{static_cast<std::uint32_t>(world_size() - 1)};
  auto const own = ballast::to_id<rank_id>(ballast_test::world_rank());
  auto runner = ballast::pipeline_runner<>::make(job.setup, own).value();
  ballast::or_throw(runner.plan(job.plan));
  for (std::size_t const call : {0U, 3U}) {
    std::optional<ballast_test::clock_of_processes> clock(world_size() - 1);
    auto comm = over_world({.deadline = 2s});
    if (own != late) { clock->waits_until(comm.deadline()); }
    ballast_test::shared_flag others_know;
    toy::stage stage(job, own);
    stage.waits = [&](std::size_t number) {
      if (own == late && number == call) { EXPECT_TRUE(others_know.wait()); }
    };
    auto const done = runner.run(comm, job.order, stage);
    ASSERT_FALSE(done);
    if (own != late) {
      EXPECT_EQ(done.error().code, error_code::timed_out);
      EXPECT_EQ(done.error().ranks, std::vector{late});
    }
    if (own == rank_id{0}) {
      std::this_thread::sleep_for(500ms);
      others_know.raise();
    }
    ballast_test::world_barrier();
    clock.reset();
    auto again = over_world();
    toy::stage next(job, own);
    ballast::or_throw(runner.run(again, job.order, next));
  }
}

}  // namespace
