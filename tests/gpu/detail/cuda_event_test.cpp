// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/cuda_event.hpp>

#include "../copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch}

#include <gtest/gtest.h>
#include <ballast/core/result.hpp>

#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <string>
#include <thread>

namespace {

using ballast::detail::cuda_event;
using ballast_test::cuda_streams;
using ballast_test::launch;

cuda_event made()
{
  return cuda_event::make().value();
}

TEST(CudaEvent, HoldsUpWhatIsQueuedNext)
{
  cuda_streams const streams(2);
  cuda_event const event = made();
  std::latch go(1);
  std::string order;
  EXPECT_EQ(launch(streams[0], [&] { go.wait(), order += 'a'; }), cudaSuccess);
  EXPECT_EQ(event.record(streams[0]), cudaSuccess);
  EXPECT_EQ(event.hold_up(streams[1]), cudaSuccess);
  EXPECT_EQ(launch(streams[1], [&] { order += 'b'; }), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(streams[1]), cudaErrorNotReady);
  go.count_down();
  EXPECT_EQ(cudaStreamSynchronize(streams[1]), cudaSuccess);
  EXPECT_EQ(order, "ab");
  (void)cudaGetLastError();
}

// What a wait is for is settled when it is queued: one event passes from place to place.
TEST(CudaEvent, CanBeRecordedAnewWhileItIsWaitedFor)
{
  cuda_streams const streams(3);
  cuda_event const event = made();
  std::latch go(1);
  bool second = false;
  EXPECT_EQ(event.hold_up(streams[1]), cudaSuccess);  // recorded nowhere
  EXPECT_EQ(event.record(streams[0]), cudaSuccess);
  EXPECT_EQ(event.hold_up(streams[1]), cudaSuccess);
  EXPECT_EQ(launch(streams[0], [&] { go.wait(), second = true; }), cudaSuccess);
  EXPECT_EQ(event.record(streams[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams[1]), cudaSuccess) << "waits for the first place only";
  EXPECT_EQ(event.hold_up(streams[2]), cudaSuccess);
  go.count_down();
  EXPECT_EQ(cudaStreamSynchronize(streams[2]), cudaSuccess);
  EXPECT_TRUE(second);
}

TEST(CudaEvent, RemembersWhenItWasReached)
{
  cuda_streams const streams(1);
  cuda_event const start = cuda_event::make_timed().value();
  cuda_event const end = cuda_event::make_timed().value();
  float passed = -1;
  EXPECT_EQ(end.milliseconds_since(start, passed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(start.record(streams[0]), cudaSuccess);
  EXPECT_EQ(launch(streams[0], [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }),
            cudaSuccess);
  EXPECT_EQ(end.record(streams[0]), cudaSuccess);
  EXPECT_EQ(end.wait(), cudaSuccess);
  EXPECT_EQ(end.milliseconds_since(start, passed), cudaSuccess);
  EXPECT_GE(passed, 2.0F);
  (void)cudaGetLastError();
}

TEST(CudaEvent, SaysWhetherItIsReached)
{
  cuda_streams const streams(1);
  cuda_event const event = made();
  EXPECT_EQ(event.state(), cudaSuccess) << "it was never recorded";
  std::atomic<bool> go = false;
  EXPECT_EQ(launch(streams[0], [&] { go.wait(false); }), cudaSuccess);
  EXPECT_EQ(event.record(streams[0]), cudaSuccess);
  EXPECT_EQ(event.state(), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  go = true;
  go.notify_all();
  EXPECT_EQ(event.wait(), cudaSuccess);
  EXPECT_EQ(event.state(), cudaSuccess);
}

TEST(CudaEvent, IsDestroyedOnce)
{
  std::size_t const before = ballast_test::live_events();
  {
    cuda_event first = made();
    cuda_event second = std::move(first);
    first = made();
    second = std::move(first);
    EXPECT_EQ(ballast_test::live_events(), before + 1);
  }
  EXPECT_EQ(ballast_test::live_events(), before);
}

TEST(CudaEvent, ReportsWhatCudaRefuses)
{
  ballast_test::fail_cuda_call("cudaEventCreateWithFlags", 0, cudaErrorMemoryAllocation);
  auto const event = cuda_event::make();
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ballast::error_code::transport);
  EXPECT_EQ(event.error().message, "cudaEventCreateWithFlags failed with code 2: out of memory");
}

}  // namespace
