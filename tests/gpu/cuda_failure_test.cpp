// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/device_memory.hpp>

#include "../support/cuda_shim.hpp"
#include "../support/test.hpp"

namespace {

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
