// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/device_memory.hpp>

#include "../support/cuda_shim.hpp"
#include "../support/test.hpp"

#include <new>

namespace {

using device_memory = ballast::device_allocator<std::byte>;

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

}  // namespace
