// SPDX-License-Identifier: Apache-2.0
// Processes that die or stop in the middle of a pipeline's step, at each of its tasks: each test is
// a job of its own, of 14 processes, since none survives its own death.
#include <ballast/runtime/pipeline_runner.hpp>

#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"  // defines: toy::{chain_job, stage, result_of_one_rank}
#include "mpi_world.hpp"                // defines: ballast_test::{world_rank, world_processes, ...}

#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>

namespace {

using namespace std::chrono_literals;

constexpr int stages_of_deaths = 3;
constexpr int tasks_of_deaths = 4;  // of each stage: two microbatches, forward and backward
constexpr int deaths = stages_of_deaths * tasks_of_deaths;

/// What all processes see, also while others are dead.
struct seen_by_all {
  std::atomic<int> round{0};
  std::atomic<int> named{0};  // times that a survivor named who is gone
  std::atomic<int> again{0};  // times that survivors ran the step among themselves
};

/// These processes of the world, in this order: they alone call it.
MPI_Comm communicator_of(std::vector<int> const& members, int tag)
{
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &some);
  MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &made);
  MPI_Group_free(&some);
  MPI_Group_free(&world);
  return made;
}

/// A step of a chain of as many stages; the caller's own may do something before a task.
template <class Waits>
ballast::result<void> run_chain(ballast::mpi_communicator& comm, Waits const& waits)
{
  auto const job = toy::chain_job(comm.size(), tasks_of_deaths / 2);
  auto runner = ballast::pipeline_runner<>::make(job.setup, comm.rank()).value();
  ballast::or_throw(runner.plan(job.plan));
  toy::stage stage(job, comm.rank());
  stage.waits = waits;
  auto done = runner.run(comm, job.order, stage);
  if (!done) { return done; }
  toy::result_of_one_rank alone(job);
  EXPECT_EQ(runner.loss(), alone.loss);
  for (auto const& [where, gradient] : stage.found) { EXPECT_EQ(gradient, alone.found[where]); }
  return done;
}

/// Round after round a fresh process joins ranks 0 and 1 as the stage whose turn it is, and ends by
/// the signal at the task whose turn it is. They name it, and run the step without it.
void lose_a_process_at_every_task(int signal)
{
  ASSERT_EQ(ballast_test::world_size(), static_cast<std::size_t>(deaths + 2));
  auto const processes = ballast_test::world_processes();
  int const own = static_cast<int>(ballast_test::world_rank());
  ballast_test::shared_object<seen_by_all> const shared;
  seen_by_all& all = *shared;

  for (int round = 0; round < deaths; ++round) {
    int const fresh = round + 2;
    if (own > 1 && own != fresh) { continue; }
    while (all.round < round) { std::this_thread::sleep_for(2ms); }
    int const place = round % stages_of_deaths;
    std::vector<int> members{0, 1};
    members.insert(members.begin() + place, fresh);
    {
      auto comm =
          ballast::mpi_communicator::over(communicator_of(members, 2 * round), {.deadline = 2s})
              .value();
      auto const done = run_chain(comm, [&](std::size_t task) {
        bool const is_time = task == static_cast<std::size_t>(round / stages_of_deaths);
        if (own == fresh && is_time) { std::raise(signal); }
      });
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ballast::error_code::timed_out) << done.error().message;
      std::vector const expected{ballast::to_id<ballast::rank_id>(static_cast<std::size_t>(place))};
      EXPECT_EQ(done.error().ranks, expected) << "round " << round;
      if (done.error().ranks == expected) { ++all.named; }
    }
    auto two = ballast::mpi_communicator::over(communicator_of({0, 1}, 2 * round + 1)).value();
    auto const again = run_chain(two, [](std::size_t) {});
    EXPECT_TRUE(again) << again.error().message;
    if (again) { ++all.again; }
    EXPECT_TRUE(two.barrier());
    if (own == 0) { all.round = round + 1; }
  }
  while (all.round < deaths) { std::this_thread::sleep_for(2ms); }  // whoever is stopped stays here
  if (own == 0) {
    std::this_thread::sleep_for(100ms);
    std::printf("%d times of %d a survivor named who was gone, and %d times ran on\n",
                all.named.load(), 2 * deaths, all.again.load());
    std::fflush(stdout);
    for (int fresh = 2; fresh < deaths + 2; ++fresh) {
      if (signal == SIGSTOP) { kill(processes[static_cast<std::size_t>(fresh)], SIGKILL); }
    }
  }
  _exit(0);  // MPI_Finalize would wait for the dead
}

TEST(MpiPipelineDeath, IsNamedAtEveryTask)
{
  lose_a_process_at_every_task(SIGKILL);
}

TEST(MpiPipelineStop, IsNamedAtEveryTask)
{
  lose_a_process_at_every_task(SIGSTOP);
}

}  // namespace
