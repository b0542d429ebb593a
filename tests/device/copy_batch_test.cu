// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/copy_batch.cuh>

#include <gtest/gtest.h>

#include <ballast/core.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/device_memory.hpp>

#include "../../bench/gpu/cub_copies.cuh"
#include "../cuda/copy_batches.hpp"
#include "gpu_test.hpp"

namespace example {

using ballast::strided_copy;

// [list]
// Takes documents out of padded rows and puts them one behind the other.
struct without_padding {
  static constexpr bool contiguous = true;

  std::byte const* padded;
  std::byte* packed;
  std::size_t row_bytes;
  std::size_t const* offsets;  // on the device: where each begins, and where the last ends

  BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    std::size_t const begin = offsets[index];
    return strided_copy::contiguous(padded + index * row_bytes, packed + begin,
                                    offsets[index + 1] - begin);
  }
};
// [list]

}  // namespace example

namespace {

using ballast::copy_batch;
using ballast::device_array;
using ballast::strided_copy;
using ballast::tiled_copies;
using ballast_test::copy_batch_case;
using ballast_test::device_bytes;
using ballast_test::kinds;
using ballast_test::listed_copies;
using ballast_test::random_bytes;
using bench::cub_copies;
using example::without_padding;

using CopyBatch = ballast_test::gpu_test;

TEST_F(CopyBatch, MakesTheCopiesOfAList)
{
  constexpr std::uint32_t count = 4;
  auto const padded_here = random_bytes(4 * 50, 1);
  auto const padded = to_device(padded_here);
  device_array<std::size_t> const offsets = to_device(std::vector<std::size_t>{0, 50, 50, 57, 100});
  device_bytes const packed(100);
  // [copy_batch]
  without_padding const list{padded.data(), packed.data(), 50, offsets.data()};
  std::size_t bytes = 0;
  cudaError_t const asked = ballast::copy_batch(nullptr, bytes, list, count, stream());  // once
  ballast::device_array<std::byte> const temporary(bytes);
  cudaError_t const queued =
      ballast::copy_batch(temporary.data(), bytes, list, count, stream());  // every step
  // [copy_batch]
  EXPECT_EQ(asked, cudaSuccess);
  EXPECT_EQ(queued, cudaSuccess);
  std::vector<std::byte> expected(100);
  std::copy_n(padded_here.begin(), 50, expected.begin());
  std::copy_n(padded_here.begin() + 100, 7, expected.begin() + 50);
  std::copy_n(padded_here.begin() + 150, 43, expected.begin() + 57);
  EXPECT_EQ(to_host(packed), expected);
}

// A graph that was captured before there was any copy makes those of all lists that come.
TEST_F(CopyBatch, ReplaysWithOtherCopiesWithinTheBound)
{
  constexpr std::uint32_t bound = 700;
  std::vector<copy_batch_case> batches;
  std::size_t from_bytes = 0;
  std::size_t to_bytes = 0;
  for (std::uint32_t const count : {700U, 0U, 1U, 300U, 699U}) {
    auto const& batch = batches.emplace_back(kinds::contiguous, count, count + 5);
    from_bytes = std::max(from_bytes, batch.from_bytes());
    to_bytes = std::max(to_bytes, batch.to_bytes());
  }
  auto const from = random_bytes(from_bytes, 3);
  auto const from_there = to_device(from);
  device_bytes const to_there(to_bytes);
  device_array<strided_copy> const copies(bound);
  listed_copies<kinds::contiguous> const list{copies.data(), bound};
  auto const expect_replays = [&](auto const& policy) {
    auto const call = [&](void* temporary, std::size_t& bytes) {
      return copy_batch(temporary, bytes, list, bound, policy, stream());
    };
    auto const temporary = ballast_test::temporary_for(call);
    auto const graph = ballast_test::graph_of(stream(), [&](cudaStream_t) {
      std::size_t bytes = temporary.size();
      return call(temporary.data(), bytes);
    });
    for (auto const& batch : batches) {
      auto expected = random_bytes(to_bytes, 4);
      write(to_there, expected);
      auto now = batch.copies(from_there.data(), to_there.data());
      now.resize(bound);
      write(copies, now);
      ASSERT_EQ(graph.replay(stream()), cudaSuccess);
      batch.run(from, expected);
      EXPECT_EQ(to_host(to_there), expected);
    }
  };
  expect_replays(tiled_copies{});
  expect_replays(cub_copies{});
}

}  // namespace
