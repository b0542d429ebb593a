// SPDX-License-Identifier: Apache-2.0
// The layer that `ballast profile` times on a GPU, over stand-ins for CUDA and cuBLAS.
#include "../../../examples/ballast/gpu/gpu_layer.hpp"  // first: proves it is self-contained
#include "../../support/test.hpp"

#include "../../support/cublas_stand_in.hpp"
#include "../../support/cuda_shim.hpp"
#include "../../support/layer_reference.hpp"

namespace {

using ballast_test::cublas_said;
using ballast_test::cublas_stand_in;
using cli::gpu_layer;
using cli::layer_part;

// Four query heads on two key heads.
constexpr block::shape grouped{
    .width = 32, .query_heads = 4, .kv_heads = 2, .head_dim = 8, .hidden = 64};
constexpr block::shape plain{
    .width = 16, .query_heads = 3, .kv_heads = 3, .head_dim = 16, .hidden = 24};

class GpuLayer : public testing::Test {
 protected:
  void SetUp() override
  {
    cublas_said = {};
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }
  void TearDown() override
  {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cublas_said.handles, 0U);
  }

  [[nodiscard]] cli::cublas products() const
  {
    return cli::cublas::make(cublas_stand_in(), stream_).value();
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

TEST_F(GpuLayer, ComputesWhatTheLayerOfTheHostDoes)
{
  cli::cublas const on = products();
  ballast_test::expect_layer_like_reference(on, stream(), grouped, 1, 24);
  ballast_test::expect_layer_like_reference(on, stream(), plain, 1, 70);  // two chunks of rows
}

// Sequences are padded to multiples of 8 rows, which nobody sees.
TEST_F(GpuLayer, TakesSequencesOfAnyLength)
{
  cli::cublas const on = products();
  for (std::size_t const length : {1U, 7U, 13U}) {
    ballast_test::expect_layer_like_reference(on, stream(), grouped, 3, length);
  }
}

TEST_F(GpuLayer, ComputesAttentionAlone)
{
  cli::cublas const on = products();
  ballast_test::expect_attention_like_reference(on, stream(), grouped, 1, 32);
  ballast_test::expect_attention_like_reference(on, stream(), grouped, 2, 8);
  EXPECT_EQ(cublas_said.largest_batch, 4U) << "all key heads of both sequences at once";
}

// As many heads at once as their scores may take: here two, and then one that is left.
TEST_F(GpuLayer, ComputesAttentionInBatchesOfHeads)
{
  cli::cublas const on = products();
  constexpr std::size_t two_heads = 2 * 2 * 16 * 16 + 100;
  ballast_test::expect_attention_like_reference(on, stream(), plain, 3, 16, two_heads);
  EXPECT_EQ(cublas_said.largest_batch, 2U);
  cublas_said.largest_batch = 0;
  ballast_test::expect_attention_like_reference(on, stream(), grouped, 2, 16, 1);
  EXPECT_EQ(cublas_said.largest_batch, 0U) << "one by one";
}

TEST_F(GpuLayer, ComputesWeightsAlone)
{
  cli::cublas const on = products();
  auto layer = gpu_layer::make(on, stream(), grouped, 1, 16, layer_part::weights).value();
  ASSERT_TRUE(layer.forward());
  EXPECT_EQ(cublas_said.products, 6U);
  ASSERT_TRUE(layer.backward());
  EXPECT_EQ(cublas_said.products, 6U + 12U);
  EXPECT_EQ(cublas_said.largest_batch, 0U) << "no attention";
  ballast_test::layer_numbers const numbers(layer, stream(), 16);
  double sum = 0;
  for (double const each : numbers.read_rows(layer.arrays().y)) { sum += each * each; }
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 1e6);
}

TEST_F(GpuLayer, SaysWhatDoesNotFit)
{
  cli::cublas const on = products();
  ballast_test::fail_cuda_call("cudaMalloc", 0, cudaErrorMemoryAllocation);
  auto const made = gpu_layer::make(on, stream(), grouped, 2, 16, layer_part::attention);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ballast::error_code::out_of_memory);
  EXPECT_EQ(made.error().message,
            "attention over 32 tokens takes 0.00 GB of the GPU's memory, of which 0.00 GB are free "
            "(out of memory)");
}

TEST_F(GpuLayer, KeepsTheErrorsOfCuda)
{
  cli::cublas const on = products();
  ballast_test::fail_cuda_call("cudaMalloc", 0, cudaErrorLaunchFailure);
  auto const made = gpu_layer::make(on, stream(), grouped, 1, 16, layer_part::both);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ballast::error_code::transport);
  EXPECT_EQ(made.error().message, "cudaMalloc failed with code 719: unspecified launch failure");

  auto layer = gpu_layer::make(on, stream(), grouped, 1, 16, layer_part::both).value();
  ballast_test::fail_cuda_call("cudaMemcpyAsync", 0, cudaErrorLaunchFailure);
  EXPECT_EQ(layer.forward().error().message,
            "cudaMemcpyAsync failed with code 719: unspecified launch failure");
}

TEST_F(GpuLayer, KeepsTheErrorsOfCublas)
{
  cli::cublas const on = products();
  auto layer = gpu_layer::make(on, stream(), grouped, 1, 16, layer_part::both).value();
  cublas_said.fails = "gemm";
  cublas_said.failure = CUBLAS_STATUS_EXECUTION_FAILED;
  auto const done = layer.forward();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ballast::error_code::transport);
  EXPECT_EQ(done.error().message, "cublasGemmEx failed with code 13: as cuBLAS says it");
}

TEST_F(GpuLayer, GivesCublasItsStreamAndWorkspace)
{
  cli::cublas const on = products();
  EXPECT_EQ(cublas_said.stream, stream());
  EXPECT_EQ(cublas_said.workspace_bytes, std::size_t{32} << 20);
  EXPECT_TRUE(cublas_said.workspace_is_last);
  EXPECT_EQ(on.version(), "13.0.2");
  for (std::string const call : {"create", "set_stream", "set_workspace", "set_math_mode"}) {
    cublas_said.fails = call.c_str();
    cublas_said.failure = CUBLAS_STATUS_NOT_INITIALIZED;
    EXPECT_FALSE(cli::cublas::make(cublas_stand_in(), stream())) << call;
  }
  cublas_said.fails = "create";
  cublas_said.failure = CUBLAS_STATUS_ALLOC_FAILED;
  EXPECT_EQ(cli::cublas::make(cublas_stand_in(), stream()).error().code,
            ballast::error_code::out_of_memory);
  cublas_said.fails = "";
}

TEST_F(GpuLayer, RefusesMatricesThatCublasCannotTake)
{
  cli::cublas const on = products();
  std::size_t const many = std::size_t{1} << 31;
  auto const done = on.multiply({.rows = many,
                                 .columns = 1,
                                 .inner = 1,
                                 .a = {nullptr, 1},
                                 .b = {nullptr, 1},
                                 .c = {nullptr, 1}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ballast::error_code::out_of_range);
}

}  // namespace
