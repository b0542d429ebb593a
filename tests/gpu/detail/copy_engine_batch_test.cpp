// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/copy_engine_batch.hpp>

#include "../../support/counted_allocations.hpp"
#include "../copy_engine_threads.hpp"  // defines: ballast_test::cuda_streams

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace {

using ballast::detail::copy_engine_batch;
using byte_array = std::vector<std::byte>;

TEST(CopyEngineBatch, MakesItsCopiesTogether)
{
  ballast_test::cuda_streams const streams(1);
  byte_array const from{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  byte_array to(4);
  for (bool const beside_kernels : {true, false}) {
    to.assign(4, std::byte{0});
    copy_engine_batch batch(2);
    batch.add(std::span(from).first(3), to.data() + 1);
    batch.add(std::span(from).last(1), to.data());
    std::size_t const before = ballast_test::copies_queued();
    EXPECT_EQ(batch.submit(streams[0], beside_kernels), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
    EXPECT_EQ(ballast_test::copies_queued() - before, 2U);
    EXPECT_EQ(to, (byte_array{std::byte{4}, std::byte{1}, std::byte{2}, std::byte{3}}));
  }
}

TEST(CopyEngineBatch, CallsForNothingWhereNothingIsToBeCopied)
{
  ballast_test::cuda_streams const streams(1);
  std::size_t const before = ballast_test::copies_queued();
  copy_engine_batch batch(3);
  EXPECT_EQ(batch.submit(streams[0], true), cudaSuccess);
  batch.add({}, nullptr);
  EXPECT_EQ(batch.submit(streams[0], true), cudaSuccess);
  EXPECT_EQ(ballast_test::copies_queued(), before);
}

TEST(CopyEngineBatch, IsUsedAgainWithoutAllocation)
{
  ballast_test::cuda_streams const streams(1);
  byte_array const from(8);
  byte_array to(8);
  copy_engine_batch batch(4);
  std::size_t const before = ballast_test::allocations();
  for (int round = 0; round < 5; ++round) {
    batch.clear();
    for (std::size_t each = 0; each < 4; ++each) {
      batch.add(std::span(from).subspan(2 * each, 2), to.data() + 2 * each);
    }
    EXPECT_EQ(batch.submit(streams[0], true), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(CopyEngineBatch, GivesBackWhatCudaSays)
{
  ballast_test::cuda_streams const streams(1);
  byte_array const from(1);
  byte_array to(1);
  copy_engine_batch batch(1);
  batch.add(from, to.data());
  ballast_test::fail_cuda_call("cudaMemcpyBatchAsync", 0, cudaErrorLaunchFailure, streams[0]);
  EXPECT_EQ(batch.submit(streams[0], true), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
}

}  // namespace
