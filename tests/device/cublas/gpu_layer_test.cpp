// SPDX-License-Identifier: Apache-2.0
#include "../../support/layer_reference.hpp"
#include "../../support/test.hpp"
#include "../gpu_test.hpp"

#include "../../../examples/ballast/gpu/gpu_kernels.hpp"
#include "../../../examples/ballast/gpu/gpu_layer.hpp"

#include <ballast/gpu/streams.hpp>

namespace {

using cli::gpu_layer;
using cli::layer_part;

/// Skipped where there is no GPU, or no cuBLAS.
class LayerOnGpu : public ballast_test::gpu_test {
 protected:
  void SetUp() override
  {
    gpu_test::SetUp();
    if (IsSkipped() || HasFatalFailure()) { return; }
    auto const functions = cli::cublas_functions::load();
    if (!functions) { GTEST_SKIP() << functions.error().message; }
    auto made = cli::cublas::make(*functions, stream());
    ASSERT_TRUE(made) << made.error().message;
    products_.emplace(std::move(*made));
  }
  void TearDown() override
  {
    products_.reset();
    gpu_test::TearDown();
  }

  [[nodiscard]] cli::cublas const& products() const { return *products_; }

 private:
  std::optional<cli::cublas> products_;
};

TEST_F(LayerOnGpu, ComputesWhatTheLayerOfTheHostDoes)
{
  constexpr block::shape grouped{
      .width = 64, .query_heads = 4, .kv_heads = 2, .head_dim = 16, .hidden = 128};
  constexpr block::shape plain{
      .width = 16, .query_heads = 3, .kv_heads = 3, .head_dim = 8, .hidden = 24};
  ballast_test::expect_layer_like_reference(products(), stream(), grouped, 1, 64);
  ballast_test::expect_layer_like_reference(products(), stream(), grouped, 3, 13);
  ballast_test::expect_layer_like_reference(products(), stream(), plain, 2, 70);
  ballast_test::expect_attention_like_reference(products(), stream(), grouped, 1, 128);
  ballast_test::expect_attention_like_reference(products(), stream(), plain, 2, 8);
}

// Rows are longer than a block has lanes for.
TEST_F(LayerOnGpu, ComputesWideRows)
{
  constexpr block::shape wide{
      .width = 2112, .query_heads = 1, .kv_heads = 1, .head_dim = 8, .hidden = 8};
  ballast_test::expect_layer_like_reference(products(), stream(), wide, 1, 5);
  constexpr block::shape narrow{
      .width = 8, .query_heads = 1, .kv_heads = 1, .head_dim = 8, .hidden = 8};
  ballast_test::expect_attention_like_reference(products(), stream(), narrow, 1, 2112);
}

TEST_F(LayerOnGpu, SaysWhatDoesNotFit)
{
  constexpr block::shape large{
      .width = 8192, .query_heads = 64, .kv_heads = 8, .head_dim = 128, .hidden = 28'672};
  auto const made =
      gpu_layer::make(products(), stream(), large, 1, std::size_t{1} << 26, layer_part::weights);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ballast::error_code::out_of_memory);
  EXPECT_TRUE(gpu_layer::make(products(), stream(), large, 1, 8, layer_part::weights))
      << "the next smaller one fits";
}

// What is queued behind it is timed from its end, so a clock does not see how long the host took.
TEST_F(LayerOnGpu, KeepsTheStreamBusy)
{
  auto clock = ballast::event_clock::make(stream()).value();
  auto const busy = clock.time(
      [&] { EXPECT_EQ(cli::keep_busy(stream(), std::chrono::milliseconds(2)), cudaSuccess); });
  EXPECT_GE(busy.value(), 1'900'000);
  EXPECT_LE(busy.value(), 20'000'000);
}

}  // namespace
