// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/streams.hpp>

#include "../support/test.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch, ...}

#include <atomic>
#include <latch>
#include <stdexcept>

namespace {

using ballast::side_stream;
using ballast_test::launch;

struct SideStream : testing::Test {
  ballast_test::cuda_streams streams{1};
  cudaStream_t const stream = streams[0];
  side_stream const side = side_stream::make().value();

  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
};

// What the stream does after the mark waits for the side's work here: else neither would end.
TEST_F(SideStream, WorksAfterTheMarkBesideWhatIsQueuedSince)  // Ensures (1) (2)
{
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> done = 0;
    std::latch beside(1);
    EXPECT_EQ(launch(stream, [&] { pause(), done = 1; }), cudaSuccess);
    EXPECT_EQ(side.mark(stream), cudaSuccess);
    EXPECT_EQ(launch(stream, [&] { beside.wait(); }), cudaSuccess);
    auto const work = [&](cudaStream_t own) {
      return launch(own, [&] {
        EXPECT_EQ(done.exchange(2), 1);
        beside.count_down();
        pause();
        done = 3;
      });
    };
    EXPECT_EQ(side.beside(stream, work), cudaSuccess);
    EXPECT_EQ(launch(stream, [&] { EXPECT_EQ(done, 3); }), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
}

TEST_F(SideStream, IsWaitedForWhereQueueingItsWorkFailedOrThrew)  // Ensures (2)
{
  for (bool const throws : {false, true}) {
    std::atomic<bool> done = false;
    auto const half = [&](cudaStream_t own) {
      EXPECT_EQ(launch(own, [&] { pause(), done = true; }), cudaSuccess);
      if (throws) { throw std::runtime_error("out of ink"); }
      return cudaErrorLaunchFailure;
    };
    EXPECT_EQ(side.mark(stream), cudaSuccess);
    if (throws) {
      EXPECT_THROW((void)side.beside(stream, half), std::runtime_error);
    } else {
      EXPECT_EQ(side.beside(stream, half), cudaErrorLaunchFailure);
    }
    EXPECT_EQ(launch(stream, [&] { EXPECT_TRUE(done); }), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
}

TEST_F(SideStream, ReturnsTheErrorsOfCuda)
{
  for (char const* const call : {"cudaEventCreateWithFlags", "cudaStreamCreateWithFlags"}) {
    std::size_t const events = ballast_test::live_events();
    ballast_test::fail_cuda_call(call, 0, cudaErrorMemoryAllocation);
    auto const made = side_stream::make();
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find(call), std::string::npos) << made.error().message;
    EXPECT_EQ(ballast_test::live_events(), events);
  }
  for (auto const& [call, calls_before] :
       {std::pair{"cudaStreamWaitEvent", 0}, {"cudaEventRecord", 0}, {"cudaStreamWaitEvent", 1}}) {
    EXPECT_EQ(side.mark(stream), cudaSuccess);
    ballast_test::fail_cuda_call(call, static_cast<std::size_t>(calls_before),
                                 cudaErrorInvalidValue);
    EXPECT_EQ(side.beside(stream, [](cudaStream_t) { return cudaSuccess; }), cudaErrorInvalidValue);
  }
}

}  // namespace
