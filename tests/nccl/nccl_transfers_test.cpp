// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/nccl_queue.hpp>

#include "../route/sharded_steps.hpp"  // defines: ballast_test::{random_sharded_step, random_delays, ...}
#include "../route/unit_steps.hpp"  // defines: ballast_test::{unit_step, random_unit_step, ...}
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/nccl_communicator.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/route/unit_exchange.hpp>

#include <latch>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast_test::nccl_ranks;
using ballast_test::time_bound;

using pair_communicator = ballast::nccl_communicator<>;
using pinned_array = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;

static_assert(ballast::point_to_point<pair_communicator>);

constexpr ballast::nccl_communicator_options patient = {.deadline = time_bound};

// The sender goes on while its receiver has not begun; only its stream is behind.
TEST(NcclTransfers, LetTheSenderLeaveWhileTheReceiverSleeps)
{
  nccl_ranks ranks(2);
  std::latch sender_left(1);
  ranks.run(patient, [&](pair_communicator& comm) {
    pinned_array bytes(100, comm.rank() == rank_id{0} ? std::byte{7} : std::byte{0});
    if (comm.rank() == rank_id{0}) {
      auto const sent = comm.send(bytes, rank_id{1});
      ASSERT_TRUE(sent);
      EXPECT_TRUE(comm.start());
      EXPECT_FALSE(comm.is_done(*sent).value());
      sender_left.count_down();
      EXPECT_TRUE(comm.wait_for(*sent));
    } else {
      sender_left.wait();
      auto const received = comm.receive(bytes, rank_id{0});
      ASSERT_TRUE(received);
      EXPECT_TRUE(comm.start());
      EXPECT_TRUE(comm.wait_for(*received));
      EXPECT_THAT(bytes, testing::Each(std::byte{7}));
    }
  });
}

// The receiver begins the second one when the sender has looked.
TEST(NcclTransfers, StayDoneWhateverBeginsBehindThem)
{
  nccl_ranks ranks(2);
  std::latch sender_looked(1);
  ranks.run(patient, [&](pair_communicator& comm) {
    bool const sends = comm.rank() == rank_id{0};
    pinned_array bytes(100), others(100);
    auto const begin = [&](pinned_array& array) {
      auto const id = sends ? comm.send(array, rank_id{1}) : comm.receive(array, rank_id{0});
      EXPECT_TRUE(comm.start());
      return id.value();
    };
    auto const first = begin(bytes);
    while (!comm.is_done(first).value()) { std::this_thread::yield(); }
    if (!sends) { sender_looked.wait(); }
    auto const second = begin(others);
    if (sends) {
      EXPECT_TRUE(comm.is_done(first).value());
      EXPECT_FALSE(comm.is_done(second).value());
      sender_looked.count_down();
    }
    EXPECT_TRUE(comm.wait_for(first) && comm.wait_for(second));
  });
}

TEST(NcclTransfers, AreAbortedAtTheDeadline)
{
  ballast_test::hand_moved_clock clock;
  nccl_ranks ranks(2);
  ranks.run(patient, [&](pair_communicator& comm) {
    if (comm.rank() != rank_id{0}) { return clock.pass_when(1, time_bound); }
    pinned_array bytes(4), others(4);
    auto const sent = comm.send(bytes, rank_id{1});
    ASSERT_TRUE(sent);
    EXPECT_TRUE(comm.start());
    auto const later = comm.receive(others, rank_id{1});  // never started
    auto const done = comm.wait_for(*sent);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::timed_out);
    EXPECT_EQ(comm.native(), nullptr);
    EXPECT_TRUE(comm.cancel(*sent)) << "no work is left that reads it";
    EXPECT_TRUE(comm.cancel(*later));
    EXPECT_FALSE(comm.send(bytes, rank_id{1}));
    EXPECT_FALSE(comm.start());
  });
}

TEST(NcclTransfers, ReportWhatNcclAndCudaRefuse)
{
  for (char const* const of_cuda : {"", "cudaEventRecord", "cudaEventCreateWithFlags"}) {
    SCOPED_TRACE(of_cuda);
    nccl_ranks ranks(1);
    ranks.run(patient, [&](pair_communicator& comm) {
      pinned_array bytes(4);
      auto const sent = comm.send(bytes, rank_id{0});
      ASSERT_TRUE(sent);
      if (of_cuda[0] != '\0') {
        ballast_test::fail_cuda_call(of_cuda, 0, cudaErrorInvalidValue);
      } else {
        ballast_test::fail_call(comm.native(), 0, ncclInvalidUsage);
      }
      auto const started = comm.start();
      ASSERT_FALSE(started);
      EXPECT_EQ(started.error().code, error_code::transport);
      EXPECT_TRUE(comm.cancel(*sent));
      auto const next = comm.barrier();
      ASSERT_FALSE(next);
      EXPECT_EQ(next.error(), started.error());
    });
  }
}

// Each direction on a communicator of its own would do; one call after the other does too.
TEST(NcclUnitExchange, MovesEveryByteAndBackBetweenRandomUnits)
{
  ballast::random_source random(1919);
  for (int trial = 0; trial < 25; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_unit_step(random, 8);
    std::vector<std::size_t> const widths{1 + random.below(20), 16};
    ballast_test::step_arrays const arrays(step.from, step.to, widths, random);
    nccl_ranks ranks(step.ranks);
    ranks.run(patient, [&](pair_communicator& comm) {
      ballast::unit_exchange<ballast::pinned_allocator<std::byte>> exchange;
      expect_unit_exchange(comm, step, arrays, exchange);
    });
  }
}

// Exchanges of packs are queued one behind the other: a circle of ranks would never end.
TEST(NcclShardedExchange, EqualsTheUnshardedStepBitForBit)
{
  ballast::random_source random(817);
  for (int trial = 0; trial < 25; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_sharded_step(random, 8);
    nccl_ranks ranks(8);
    ranks.run(patient, [&](pair_communicator& comm) {
      ballast::sharded_exchange<ballast::pinned_allocator<std::byte>> exchange(
          1 + static_cast<std::size_t>(trial) % 2);
      ballast_test::random_delays const delays(to_index(comm.rank()));
      auto const done = expect_unsharded_step(comm, step, exchange, delays);
      ASSERT_TRUE(done) << done.error().message;
    });
  }
}

}  // namespace
