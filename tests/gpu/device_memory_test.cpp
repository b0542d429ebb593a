// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/device_memory.hpp>

#include "../support/cuda_shim.hpp"
#include "../support/test.hpp"

#include <new>

namespace {

using ballast::device_array;
using ballast_test::live_device_arrays;

using device_memory = ballast::device_allocator<std::byte>;

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

class DeviceAllocator : public testing::Test {
 protected:
  void SetUp() override
  {
    ASSERT_EQ(cudaStreamCreate(&computes_), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&reads_), cudaSuccess);
  }
  void TearDown() override
  {
    EXPECT_EQ(cudaStreamDestroy(computes_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(reads_), cudaSuccess);
    EXPECT_EQ(ballast_test::live_device_arrays(), 0U);
  }
  [[nodiscard]] device_memory memory() const { return {computes_, reads_}; }
  cudaStream_t computes() const { return computes_; }

 private:
  cudaStream_t computes_ = nullptr;
  cudaStream_t reads_ = nullptr;
};

TEST_F(DeviceAllocator, CopiesBehindWhatComputes)
{
  auto own = memory();
  std::byte* const first = own.allocate(16);
  std::byte* const second = own.allocate(16);
  static std::array<std::byte, 16> const given{std::byte{7}, std::byte{9}};
  own.write(first, given.data(), given.size());
  own.copy(second, first, given.size());
  ASSERT_EQ(cudaStreamSynchronize(computes()), cudaSuccess);
  std::array<std::byte, 16> found{};
  own.read(found.data(), second, found.size());
  EXPECT_EQ(found, given);
  own.deallocate(first, 16);
  own.deallocate(second, 16);
  ASSERT_EQ(cudaStreamSynchronize(computes()), cudaSuccess);
}

TEST_F(DeviceAllocator, ThrowsWhereCudaRefuses)  // Errors
{
  auto own = memory();
  ballast_test::fail_cuda_call("cudaMallocAsync", 0, cudaErrorMemoryAllocation);
  EXPECT_THROW((void)own.allocate(16), std::bad_alloc);
  ballast::device_allocator<double> numbers = {computes(), computes()};
  EXPECT_THROW((void)numbers.allocate(SIZE_MAX / 4), std::bad_array_new_length);
}

TEST_F(DeviceAllocator, ReadsOnesWhereCudaCannotCopy)  // Errors
{
  auto own = memory();
  std::byte* const array = own.allocate(8);
  ballast_test::fail_cuda_call("cudaMemcpyAsync", 0, cudaErrorInvalidValue);
  std::uint64_t word = 0;
  own.read(reinterpret_cast<std::byte*>(&word), array, sizeof(word));
  EXPECT_EQ(word, ~std::uint64_t{0});
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue) << "the caller's next check reports it";
  own.deallocate(array, 8);
  ASSERT_EQ(cudaStreamSynchronize(computes()), cudaSuccess);
}

TEST(CudaFailure, SaysWhatCudaSaidAndLeavesItNowhereElse)
{
  ballast_test::fail_cuda_call("cudaMalloc", 0, cudaErrorMemoryAllocation);
  void* memory = nullptr;
  cudaError_t const code = cudaMalloc(&memory, 1);
  ASSERT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);

  ballast::error const failure = ballast::cuda_failure("cudaMalloc", code).value();
  EXPECT_EQ(failure.code, ballast::error_code::transport);
  EXPECT_EQ(failure.position, static_cast<std::size_t>(cudaErrorMemoryAllocation));
  EXPECT_EQ(failure.message, "cudaMalloc failed with code 2: out of memory");
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(CudaFailure, IsTheResultOfWhatDidNotSucceed)
{
  EXPECT_TRUE(ballast::cuda_result("cudaMemcpyAsync", cudaSuccess));
  auto const failed = ballast::cuda_result("cudaMemcpyAsync", cudaErrorInvalidValue);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().position, static_cast<std::size_t>(cudaErrorInvalidValue));
}

}  // namespace
