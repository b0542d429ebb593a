// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/repeat_rows.cuh>

#include "gpu_test.hpp"
#include "staged_on_device.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/route/row_array.hpp>

namespace {

using RepeatRowsOnDevice = ballast_test::gpu_test;

// A graph of both kernels, replayed with the copies of other steps.
TEST_F(RepeatRowsOnDevice, AreThoseOfTheHost)
{
  constexpr std::uint32_t most = 40;
  constexpr std::size_t width = 129;
  ballast_test::staged_on_device<ballast::sequence_rows> device(most);
  auto& there = *device;

  std::vector<float> rows(most * width);
  for (std::size_t at = 0; at < rows.size(); ++at) { rows[at] = 0.1F * static_cast<float>(at); }
  auto const x = to_device(rows);
  ballast::device_array<float> const repeated(8 * rows.size());
  ballast::device_array<float> const sums(rows.size());
  auto const both = ballast_test::graph_of(stream(), [&](cudaStream_t queue) {
    for (cudaError_t const error :
         {there.upload(queue), ballast::repeat_rows(there, x.data(), repeated.data(), width, queue),
          ballast::sum_rows(there, repeated.data(), sums.data(), width, queue)}) {
      if (error != cudaSuccess) { return error; }
    }
    return cudaSuccess;
  });
  for (std::size_t const sequences : {40, 0, 17, 1}) {
    std::vector<ballast::tokens> copies(sequences);
    for (std::size_t row = 0; row < sequences; ++row) {
      copies[row] = static_cast<ballast::tokens>(1 + row * 5 % 8);
    }
    auto const all = static_cast<std::size_t>(std::reduce(copies.begin(), copies.end()));
    rows.resize(sequences * width);
    std::vector<float> expected(all * width);
    std::vector<float> expected_sums(rows.size());
    ballast::repeat_rows<float>(copies, rows, expected);
    ballast::sum_rows<float>(copies, expected, expected_sums);
    ASSERT_EQ(wait(), cudaSuccess);
    ASSERT_TRUE(there.stage({copies, {}}));
    ASSERT_EQ(both.replay(stream()), cudaSuccess);
    auto found = to_host(repeated);
    auto found_sums = to_host(sums);
    found.resize(expected.size());
    found_sums.resize(expected_sums.size());
    EXPECT_EQ(found, expected);
    EXPECT_EQ(found_sums, expected_sums);
  }
}

TEST_F(RepeatRowsOnDevice, AddTheGradientsOfAllCopies)
{
  ballast_test::staged_on_device<ballast::sequence_rows> device(2);
  auto& there = *device;
  constexpr std::size_t width = 2;
  ballast::sequence_rows const beside{{3, 1}, {}};
  auto const rows = to_device(std::vector<double>{1, 2, 10, 20});
  ballast::device_array<double> const repeated(4 * width);
  ballast::device_array<double> const gradients(2 * width);
  // [repeat_rows]
  auto const staged = there.stage(beside);  // every step
  cudaError_t const uploaded = there.upload(stream());
  cudaError_t const repeats =
      ballast::repeat_rows(there, rows.data(), repeated.data(), width, stream());
  cudaError_t const sums =  // of what the reverse route has brought
      ballast::sum_rows(there, repeated.data(), gradients.data(), width, stream());
  // [repeat_rows]
  EXPECT_TRUE(ballast_test::done(staged));
  for (cudaError_t const error : {uploaded, repeats, sums}) { EXPECT_EQ(error, cudaSuccess); }
  EXPECT_EQ(to_host(repeated), (std::vector<double>{1, 2, 1, 2, 1, 2, 10, 20}));
  EXPECT_EQ(to_host(gradients), (std::vector<double>{3, 6, 10, 20}));
}

}  // namespace
