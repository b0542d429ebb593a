// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/nccl_pairs.hpp>

#include "../gpu/copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch}
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "../support/toy_pipeline.hpp"  // defines: toy::{draw, chain_job, stage, ...}
#include "nccl_ranks.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/nccl_communicator.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>

#include <latch>
#include <mutex>

namespace {

using ballast::error_code;
using ballast::nccl_communicator;
using ballast::nccl_pairs;
using ballast::rank_id;
using ballast_test::cuda_streams;
using ballast_test::hand_moved_clock;
using ballast_test::nccl_ranks;
using ballast_test::time_bound;
using namespace std::chrono_literals;

using device_memory = ballast::device_allocator<std::byte>;
using pinned_memory = ballast::pinned_allocator<std::byte>;

static_assert(ballast::communicator<nccl_pairs<>> && ballast::point_to_point<nccl_pairs<>>);

/// Runs a job on threads with NCCL's stand-in; body(rank's pairs, its stream, its device memory).
template <class Body>
void run_pairs(toy::job const& job, std::chrono::milliseconds limit, Body const& body,
               std::size_t polls = 0)
{
  auto const pairs = job.setup.pairs();
  std::size_t const size = job.setup.grid.ranks();
  nccl_ranks ranks(size);
  if (polls > 0) { ranks.make_non_blocking(polls); }
  cuda_streams const compute(size);
  cuda_streams const read(size);
  ranks.run({.deadline = limit}, [&](nccl_communicator<>& comm) {
    std::size_t const rank = to_index(comm.rank());
    cudaStream_t const computes = compute[rank];
    auto made = nccl_pairs<>::make(comm, pairs, computes, limit);
    ASSERT_TRUE(made) << made.error().message;
    body(*made, computes, device_memory{computes, read[rank]});
  });
}

struct found_by_all {
  std::mutex mutex = {};
  toy::gradients all;
  void add(toy::gradients const& more)
  {
    std::lock_guard const lock(mutex);
    all.insert(more.begin(), more.end());
  }
};

toy::gradients expected_of(toy::job const& job)
{
  toy::result_of_one_rank alone(job);
  std::erase_if(alone.found, [&](auto const& each) {
    return std::ranges::count(job.order, job.plan.microbatch[each.first.second]) == 0;
  });
  return alone.found;
}

TEST(NcclPairs, RunPipelinesWithTheGradientsOfOneRank)
{
  ballast::random_source random(4546);
  for (int trial = 0; trial < ballast_test::trials_of(25, 4); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const job = toy::draw(random, 8);
    toy::result_of_one_rank const alone(job);
    found_by_all found;
    run_pairs(
        job, time_bound,
        [&](nccl_pairs<>& comm, cudaStream_t, device_memory) {
          auto runner = ballast::pipeline_runner<pinned_memory>::make(job.setup, comm.rank());
          ballast::or_throw(runner->plan(job.plan));
          for (int step = 0; step < 2; ++step) {
            toy::stage stage(job, comm.rank());
            ballast::or_throw(runner->run(comm, job.order, stage));
            found.add(stage.found);
            EXPECT_EQ(runner->loss(), alone.loss);
          }
        },
        trial % 3 == 0 ? 2 : 0);
    EXPECT_EQ(found.all, expected_of(job));
  }
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST(NcclPairs, CarryOutPlannedSchedulesWithinTheirMemory)
{
  ballast::random_source random(6366);
  for (int trial = 0; trial < ballast_test::trials_of(25, 4); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const job = toy::draw_split(random, 1 + random.below(6));
    toy::result_of_one_rank const alone(job);
    found_by_all found;
    run_pairs(job, time_bound, [&](nccl_pairs<>& comm, cudaStream_t, device_memory) {
      auto runner = ballast::pipeline_runner<pinned_memory>::make(job.setup, comm.rank());
      ballast::or_throw(runner->plan(job.plan));
      toy::split_stage stage(job, comm.rank());
      ballast::or_throw(runner->run(comm, job.order, stage));
      std::size_t const rank = toy::pipeline_rank_of(job, comm.rank());
      EXPECT_EQ(stage.most_kept, job.peak[rank]);
      EXPECT_LE(stage.most_kept, job.memory.most[rank]);
      found.add(stage.found);
      EXPECT_EQ(runner->loss(), alone.loss);
    });
    EXPECT_EQ(found.all, expected_of(job));
  }
}

/// Queues what a stage computes, and returns: the arrays are the device's.
class queued_stage {
 public:
  queued_stage(toy::job const& job, rank_id rank, cudaStream_t stream)
      : inner_(job, rank), stream_(stream)
  {}

  void forward(ballast::forward_call const& call)
  {
    queue([this, own = call, in = copy_of(call.inputs), out = copy_of(call.outputs)]() mutable {
      own.inputs = in;
      own.outputs = out;
      (void)inner_.forward(own);
    });
  }
  void backward(ballast::backward_call const& call)
  {
    queue([this, own = call, in = copy_of(call.inputs), of_out = copy_of(call.output_gradients),
           of_in = copy_of(call.input_gradients)]() mutable {
      own.inputs = in;
      own.output_gradients = of_out;
      own.input_gradients = of_in;
      inner_.backward(own);
    });
  }
  [[nodiscard]] toy::gradients const& found() const { return inner_.found; }

 private:
  template <class T>
  static std::vector<T> copy_of(std::span<T const> arrays)
  {
    return {arrays.begin(), arrays.end()};
  }
  void queue(std::function<void()> work)
  {
    auto const late = [own = std::move(work)] {
      std::this_thread::sleep_for(100us);
      own();
    };
    EXPECT_EQ(ballast_test::launch(stream_, late), cudaSuccess);
  }

  toy::stage inner_;
  cudaStream_t stream_;
};

TEST(NcclPairs, GiveAStageArraysOfTheDeviceWhichItsKernelsUseLater)
{
  ballast::random_source random(4547);
  for (int trial = 0; trial < ballast_test::trials_of(25, 4); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto job = toy::draw(random, 8);
    job.setup.tensor = ballast::pipeline_setup::tensor_gradients::copies;
    found_by_all found;
    run_pairs(
        job, time_bound, [&](nccl_pairs<>& comm, cudaStream_t computes, device_memory memory) {
          auto runner =
              ballast::pipeline_runner<device_memory>::make(job.setup, comm.rank(), memory).value();
          ballast::or_throw(runner.plan(job.plan));
          queued_stage stage(job, comm.rank(), computes);
          for (int step = 0; step < 2; ++step) {
            ballast::or_throw(runner.run(comm, job.order, stage));
          }
          ASSERT_EQ(cudaStreamSynchronize(computes), cudaSuccess);
          found.add(stage.found());
        });
    EXPECT_EQ(found.all, expected_of(job));
  }
  EXPECT_EQ(ballast_test::live_device_arrays(), 0U);
}

TEST(NcclPairs, AddNoPartsInMemoryOfTheDevice)
{
  auto job = toy::chain_job(2, 2);
  job.setup.tensor = ballast::pipeline_setup::tensor_gradients::float32_parts;
  auto const made =
      ballast::pipeline_runner<device_memory>::make(job.setup, rank_id{0}, {nullptr, nullptr});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, testing::HasSubstr("add them in the stage"));
}

// Over one stream each rank's receive would hold up what the other waits for.
TEST(NcclPairs, HoldUpNoOtherPairAndNoOtherDirection)
{
  toy::job const job = toy::chain_job(2, 2);
  std::latch received(1);
  run_pairs(job, time_bound, [&](nccl_pairs<>& comm, cudaStream_t, device_memory) {
    rank_id const other{1 - static_cast<std::uint32_t>(to_index(comm.rank()))};
    std::vector<std::byte, pinned_memory> came(8), sent(8, std::byte{3});
    auto const receive = comm.receive(came, other).value();
    ASSERT_TRUE(comm.start());
    if (comm.rank() == rank_id{1}) { received.wait(); }
    auto const send = comm.send(sent, other).value();
    ASSERT_TRUE(comm.start());
    if (comm.rank() == rank_id{0}) { received.count_down(); }
    EXPECT_TRUE(comm.wait_for(receive));
    EXPECT_TRUE(comm.wait_for(send));
    EXPECT_EQ(came, sent);
  });
}

TEST(NcclPairs, TellAllRanksOfOtherPairs)  // Errors: mismatch
{
  nccl_ranks ranks(3);
  cuda_streams const streams(3);
  ranks.run({.deadline = time_bound}, [&](nccl_communicator<>& comm) {
    std::vector<ballast::rank_pair> pairs{{rank_id{0}, rank_id{1}}, {rank_id{1}, rank_id{2}}};
    if (comm.rank() == rank_id{1}) { pairs.pop_back(); }
    auto const made = nccl_pairs<>::make(comm, pairs, streams[to_index(comm.rank())]);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, error_code::mismatch);
    EXPECT_THAT(made.error().ranks, testing::ElementsAre(rank_id{1}));
  });
}

TEST(NcclPairs, EndAllTransfersAtTheDeadlineAndRunOnNewOnes)  // Ensures (2)
{
  auto const job = toy::chain_job(3, 2);
  for (std::size_t call = 0; call < 4; ++call) {
    std::optional<ballast_test::passing_time> passing(time_bound);
    hand_moved_clock::begin_to_act(3);
    std::latch others_know(2);
    run_pairs(job, time_bound, [&](nccl_pairs<>& comm, cudaStream_t, device_memory) {
      hand_moved_clock::acts_until_here const ends;
      auto runner = ballast::pipeline_runner<pinned_memory>::make(job.setup, comm.rank()).value();
      ballast::or_throw(runner.plan(job.plan));
      toy::stage stage(job, comm.rank());
      bool const is_late = comm.rank() == rank_id{1};
      stage.waits = [&](std::size_t number) {
        if (!is_late || number != call) { return; }
        hand_moved_clock::end_to_act();
        others_know.wait();
        hand_moved_clock::begin_to_act();
      };
      auto const done = runner.run(comm, job.order, stage);
      EXPECT_FALSE(done);
      if (is_late) { return; }
      if (!done) { EXPECT_EQ(done.error().code, error_code::timed_out) << done.error().message; }
      auto const again = comm.send({}, rank_id{1});
      ASSERT_FALSE(again);
      EXPECT_EQ(again.error(), done.error());
      others_know.count_down();
    });
    passing.reset();
    run_pairs(job, time_bound, [&](nccl_pairs<>& comm, cudaStream_t, device_memory) {
      auto runner = ballast::pipeline_runner<pinned_memory>::make(job.setup, comm.rank()).value();
      ballast::or_throw(runner.plan(job.plan));
      toy::stage stage(job, comm.rank());
      ballast::or_throw(runner.run(comm, job.order, stage));
    });
  }
  EXPECT_EQ(ballast_test::live_pinned_arrays(), 0U);
}

}  // namespace
