// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/device_memory.hpp>  // first: proves it is self-contained

#include "../support/cuda_shim.hpp"
#include "../support/test.hpp"

#include <new>

namespace {

using ballast::device_array;
using ballast_test::live_device_arrays;

static_assert(std::is_nothrow_move_constructible_v<device_array<float>>);
static_assert(std::is_nothrow_move_assignable_v<device_array<float>>);
static_assert(!std::is_copy_constructible_v<device_array<float>>);

TEST(DeviceArray, IsFreedWithItsOwner)
{
  std::size_t const before = live_device_arrays();
  {
    device_array<std::int32_t> const array(7);
    EXPECT_EQ(array.size(), 7U);
    EXPECT_NE(array.data(), nullptr);
    EXPECT_EQ(array.span().data(), array.data());
    EXPECT_EQ(array.span().size_bytes(), 28U);
    EXPECT_EQ(live_device_arrays(), before + 1);
  }
  EXPECT_EQ(live_device_arrays(), before);
}

TEST(DeviceArray, OfNoElementsAsksForNoMemory)
{
  std::size_t const before = live_device_arrays();
  device_array<double> const none(0);
  device_array<double> const nothing;
  EXPECT_EQ(live_device_arrays(), before);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0U);
  EXPECT_TRUE(nothing.span().empty());
}

TEST(DeviceArray, MovesItsMemory)
{
  std::size_t const before = live_device_arrays();
  device_array<char> from(3);
  char* const memory = from.data();
  device_array<char> to(std::move(from));
  EXPECT_EQ(from.size(), 0U);
  EXPECT_EQ(to.data(), memory);
  EXPECT_EQ(to.size(), 3U);
  from = device_array<char>(5);
  to = std::move(from);
  EXPECT_EQ(to.size(), 5U);
  EXPECT_EQ(live_device_arrays(), before + 1);
}

TEST(DeviceArray, ThrowsWhereCudaRefusesAndLeavesNoErrorBehind)  // Errors
{
  std::size_t const before = live_device_arrays();
  ballast_test::fail_cuda_call("cudaMalloc", 0, cudaErrorMemoryAllocation);
  EXPECT_THROW(device_array<float>(1), std::bad_alloc);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(live_device_arrays(), before);
}

TEST(DeviceArray, RefusesASizeThatDoesNotFit)  // Errors
{
  std::size_t const most = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(device_array<std::int32_t>(most / 4 + 1), std::bad_array_new_length);
}

}  // namespace
