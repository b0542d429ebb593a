// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/detail/uploaded.cuh>

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/cuda/prepared_route.cuh>

#include <new>

namespace {

// How it grows and prepares, a test over the stand-in for CUDA says.
TEST(UploadedPlan, IsNoneWhereCudaHasNoMemory)
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a CUDA device, which has memory";
  }
  ballast::detail::uploaded<ballast::prepared_route, ballast::route_plan, ballast::device_rows>
      there;
  ballast::route_plan plan;  // of one rank that moves nothing
  plan.sent.start(1);
  plan.sent.finish();
  plan.received.start(1);
  plan.received.finish();
  EXPECT_FALSE(there.has_room_for(plan));
  EXPECT_THROW((void)there.upload(plan, nullptr), std::bad_alloc);
  EXPECT_FALSE(there.has_room_for(plan));
}

}  // namespace
