// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/copy_engine_ranks.hpp>

#include "../copy_engine_threads.hpp"  // defines: ballast_test::cuda_streams

#include <gtest/gtest.h>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace {

using ballast::detail::make_copy_engine_ranks;
using ballast_test::cuda_streams;

int device_now()
{
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  return device;
}

/// Streams of devices 0, 1, 2, 0, of which 1 is the current one meanwhile.
struct CopyEngineRanks : testing::Test {
  CopyEngineRanks()
  {
    ballast_test::pretend_devices(3, true);
    for (int const device : {0, 1, 2, 0}) {
      EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
      each.push_back(std::make_unique<cuda_streams>(1));
      streams.push_back((*each.back())[0]);
    }
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  }
  CopyEngineRanks(CopyEngineRanks const&) = delete;
  CopyEngineRanks& operator=(CopyEngineRanks const&) = delete;
  ~CopyEngineRanks() override
  {
    EXPECT_EQ(device_now(), 1) << "it has been left as it was";
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(ballast_test::live_events(), 0U);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    ballast_test::pretend_devices(1, false);
  }

  std::vector<std::unique_ptr<cuda_streams>> each;
  std::vector<cudaStream_t> streams;
};

TEST_F(CopyEngineRanks, HaveEventsOfTheirStreamsDevices)
{
  auto const ranks = make_copy_engine_ranks(streams).value();
  ASSERT_EQ(ranks.size(), 4U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ranks[rank]->stream, streams[rank]);
    EXPECT_EQ(ranks[rank]->ready.record(streams[rank]), cudaSuccess);
    EXPECT_EQ(ranks[rank]->taken.record(streams[rank]), cudaSuccess);
  }
  EXPECT_EQ(ballast_test::live_events(), 8U);
}

TEST_F(CopyEngineRanks, LetDevicesReachEachOther)
{
  ASSERT_TRUE(make_copy_engine_ranks(streams));
  EXPECT_EQ(ballast_test::accesses_enabled(), 6U);  // both directions, once for each pair
  ASSERT_TRUE(make_copy_engine_ranks(streams)) << "or another has done so before";
  EXPECT_EQ(ballast_test::accesses_enabled(), 6U);
}

TEST_F(CopyEngineRanks, DoWithoutWhereDevicesCannot)
{
  ballast_test::pretend_devices(3, false);
  EXPECT_TRUE(make_copy_engine_ranks(streams));
  EXPECT_EQ(ballast_test::accesses_enabled(), 0U);
}

TEST_F(CopyEngineRanks, CopyThroughTheHostWhereADeviceMapsNoMorePeers)
{
  ballast_test::pretend_devices(3, true, 1);
  EXPECT_TRUE(make_copy_engine_ranks(streams));
  EXPECT_EQ(ballast_test::accesses_enabled(), 3U);  // one of each device
}

TEST_F(CopyEngineRanks, ReportWhatCudaRefuses)
{
  for (char const* const call : {"cudaStreamGetDevice", "cudaSetDevice", "cudaEventCreateWithFlags",
                                 "cudaDeviceCanAccessPeer", "cudaDeviceEnablePeerAccess"}) {
    for (std::size_t const before : {0U, 1U, 2U}) {
      ballast_test::pretend_devices(3, true);
      ballast_test::fail_cuda_call(call, before, cudaErrorInvalidValue);
      auto const ranks = make_copy_engine_ranks(streams);
      ASSERT_FALSE(ranks) << call;
      EXPECT_EQ(ranks.error().code, ballast::error_code::transport);
      EXPECT_EQ(ranks.error().message, std::string(call) + " failed with code 1: invalid argument");
    }
  }
}

}  // namespace
