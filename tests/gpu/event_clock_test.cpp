// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/streams.hpp>

#include "../support/test.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::cuda_streams
#include "host_work.hpp"            // defines: ballast_test::host_work

#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

namespace {

using ballast::event_clock;
using ballast_test::cuda_streams;
using ballast_test::host_work;

static_assert(ballast::profiler_clock<event_clock>);

void sleep_for_2_ms()
{
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

TEST(EventClock, TimesWhatTheStreamDoes)
{
  cuda_streams const streams(1);
  host_work queued;
  event_clock clock = event_clock::make(streams[0]).value();
  bool done = false;
  auto const time = clock.time([&] {
    queued.queue(streams[0], [&] {
      sleep_for_2_ms();
      done = true;
    });
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
  host_work queued;
  event_clock clock = event_clock::make(streams[0]).value();
  auto const before = clock.now().value();
  queued.queue(streams[0], sleep_for_2_ms);
  auto const time = clock.time([] {});
  EXPECT_LE(time.value() + 1'900'000, clock.now().value() - before);
}

TEST(EventClock, IsAClockOfTheProfiler)
{
  cuda_streams const streams(1);
  host_work queued;
  event_clock clock = event_clock::make(streams[0]).value();
  struct work {
    host_work& kernels;
    cudaStream_t stream;
    void forward() const { kernels.queue(stream, sleep_for_2_ms); }
    void backward() const { kernels.queue(stream, sleep_for_2_ms); }
  };
  ballast::profile_file file;
  ballast::profiler_grid const grid{
      .name = "llm", .flops = {.linear = 4'000'000}, .degrees = {{1}}, .sizes = {1, 2}};
  auto const done = ballast::profile_module(
      file, grid, [&](ballast::profiler_point const&) { return work{queued, streams[0]}; }, clock,
      {.warm_up = 0, .runs = 1}, [](ballast::profiler_progress const&) {});
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

}  // namespace
