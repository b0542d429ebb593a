// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/stream_wait.hpp>

#include "../copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch}

#include <gtest/gtest.h>

#include <chrono>
#include <latch>

namespace {

using ballast::detail::poll;
using ballast::detail::state_of;
using std::chrono::milliseconds;

TEST(StreamWait, TellsTheStateAndLeavesNoError)
{
  ballast_test::cuda_streams const streams(1);
  EXPECT_EQ(state_of(streams[0]), cudaSuccess);
  std::latch go(1);
  EXPECT_EQ(ballast_test::launch(streams[0], [&] { go.wait(); }), cudaSuccess);
  EXPECT_EQ(state_of(streams[0]), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  go.count_down();
  EXPECT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
  ballast_test::fail_stream(streams[0], cudaErrorLaunchFailure);
  EXPECT_EQ(state_of(streams[0]), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure) << "that is not ours to take away";
}

TEST(StreamWait, AsksUntilItIsDone)
{
  int asked = 0;
  EXPECT_TRUE(poll(milliseconds::max(), [&] { return ++asked == 100; }));
  EXPECT_EQ(asked, 100);
}

TEST(StreamWait, AsksUntilTheDeadlineAndOnceAtLeast)
{
  int asked = 0;
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(poll(milliseconds(20), [&] { return ++asked, false; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(20));
  EXPECT_GE(asked, 2);
  EXPECT_TRUE(poll(milliseconds(0), [] { return true; }));
}

}  // namespace
