// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/streams.hpp>

#include "../support/test.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch, ...}

#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <atomic>
#include <latch>
#include <stdexcept>

namespace {

using ballast::event_clock;
using ballast::nvtx_range;
using ballast::side_stream;
using ballast_test::cuda_streams;
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

static_assert(ballast::profiler_clock<event_clock>);

void sleep_for_2_ms()
{
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

TEST(EventClock, TimesWhatTheStreamDoes)
{
  cuda_streams const streams(1);
  event_clock clock = event_clock::make(streams[0]).value();
  bool done = false;
  auto const time = clock.time([&] {
    EXPECT_EQ(launch(streams[0],
                     [&] {
                       sleep_for_2_ms();
                       done = true;
                     }),
              cudaSuccess);
  });
  EXPECT_TRUE(done) << "it waits for the stream";
  EXPECT_GE(time.value(), 2'000'000);
  auto const before = clock.now().value();
  sleep_for_2_ms();
  EXPECT_GE(clock.now().value() - before, 2'000'000);
}

// What is queued before does not count.
TEST(EventClock, BeginsWhereTheStreamReachesTheWork)
{
  cuda_streams const streams(1);
  event_clock clock = event_clock::make(streams[0]).value();
  auto const before = clock.now().value();
  EXPECT_EQ(launch(streams[0], sleep_for_2_ms), cudaSuccess);
  auto const time = clock.time([] {});
  EXPECT_LE(time.value() + 1'900'000, clock.now().value() - before);
}

TEST(EventClock, IsAClockOfTheProfiler)
{
  cuda_streams const streams(1);
  event_clock clock = event_clock::make(streams[0]).value();
  struct work {
    cudaStream_t stream;
    void forward() const { EXPECT_EQ(launch(stream, sleep_for_2_ms), cudaSuccess); }
    void backward() const { forward(); }
  };
  ballast::profile_file file;
  ballast::model_profiler const llm{
      .name = "llm", .flops = {.linear = 4'000'000}, .sizes = {1, 2}, .warm_up = 0, .runs = 1};
  auto const done =
      llm.profile(file, [&](auto const&) { return work{streams[0]}; }, clock, [](auto const&) {});
  EXPECT_EQ(done.value().measured, 2U);
  for (auto const& point : file.modules.at(0).degrees.at(0).linear) {
    EXPECT_GE(point.forward_ns, 2'000'000U);
    EXPECT_LE(point.flop_per_second, 2'000'000'000U);
  }
}

TEST(EventClock, ReportsWhatCudaRefuses)
{
  cuda_streams const streams(1);
  ballast_test::fail_cuda_call("cudaEventCreateWithFlags", 1, cudaErrorMemoryAllocation);
  EXPECT_FALSE(event_clock::make(streams[0]));
  event_clock clock = event_clock::make(streams[0]).value();
  for (char const* const call :
       {"cudaEventRecord", "cudaEventSynchronize", "cudaEventElapsedTime"}) {
    ballast_test::fail_cuda_call(call, 0, cudaErrorLaunchFailure);
    auto const time = clock.time([] {});
    ASSERT_FALSE(time) << call;
    EXPECT_EQ(time.error().code, ballast::error_code::transport);
    EXPECT_EQ(time.error().message,
              std::string(call) + " failed with code 719: unspecified launch failure");
  }
}

TEST(NvtxRange, IsNothingUnlessAskedFor)
{
#ifdef NVTX_VERSION
  FAIL() << "nvtx3 was included without BALLAST_NVTX_ENABLED";
#endif
  static_assert(std::is_empty_v<nvtx_range>);
  static_assert(!std::is_copy_constructible_v<nvtx_range>);
  nvtx_range const range("ballast::nothing");
}

}  // namespace
