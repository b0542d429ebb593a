// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/reduce_scatter.cuh>

#include "gpu_test.hpp"
#include "ranks_on_one_gpu.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/device_memory.hpp>

namespace {

using ReduceScatterOnDevice = ballast_test::gpu_test;

TEST_F(ReduceScatterOnDevice, AddsUpWhatAllRanksHave)
{
  constexpr std::size_t ranks = 4;
  constexpr std::size_t piece = 70'001;
  ballast_test::run_ranks_on_one_gpu(ranks, [&](ballast::copy_engine_communicator<>& comm) {
    std::size_t const rank = to_index(comm.rank());
    std::vector<float> own(ranks * piece);
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = static_cast<float>((rank + 1) * (i % 1000));
    }
    auto const values = to_device(own);
    ballast::device_array<float> const pieces(own.size());
    ballast::device_array<float> const sum(piece);
    ballast::workspace memory;
    EXPECT_TRUE(ballast_test::done(ballast::reduce_scatter(
        comm, std::span<float const>(values.span()), pieces.span(), sum.span(), memory)));
    EXPECT_TRUE(
        ballast_test::done(ballast::all_reduce(comm, values.span(), pieces.span(), memory)));
    EXPECT_TRUE(ballast_test::done(comm.wait()));
    EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);
    auto const mine = to_host(sum);
    auto const all = to_host(values);
    for (std::size_t i = 0; i < own.size(); ++i) {
      ASSERT_EQ(all[i], 10 * static_cast<float>(i % 1000)) << i;
    }
    for (std::size_t i = 0; i < piece; ++i) { ASSERT_EQ(mine[i], all[rank * piece + i]) << i; }
    EXPECT_TRUE(comm.barrier());
  });
}

}  // namespace
