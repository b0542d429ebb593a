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

/// copy_batch with these tiles.
struct tiled {
  tiled_copies how;

  template <class List>
  cudaError_t operator()(void* temporary, std::size_t& bytes, List const& list, std::uint32_t count,
                         cudaStream_t stream) const
  {
    return copy_batch(temporary, bytes, list, count, stream, how);
  }
};

/// A test of copy_batch, or of what bench/gpu compares with it.
class CopyBatch : public ballast_test::gpu_test {
 protected:
  /// Makes `count` random copies by a list of `bound`. The arrays end where the copies do: a byte
  /// too far is what compute-sanitizer finds.
  template <kinds Kind, class Make>
  void expect_same_as_on_the_host(std::uint32_t count, std::uint32_t bound, std::uint64_t seed,
                                  Make const& make)
  {
    SCOPED_TRACE(testing::Message() << count << " copies of " << bound << ", seed " << seed);
    copy_batch_case const batch(Kind, count, seed);
    auto const from = random_bytes(batch.from_bytes(), seed);
    auto expected = random_bytes(batch.to_bytes(), seed + 1);
    auto const from_there = to_device(from);
    auto const to_there = to_device(expected);
    auto const copies = to_device(batch.copies(from_there.data(), to_there.data()));
    listed_copies<Kind> const list{copies.data(), count};
    run([&](void* temporary, std::size_t& bytes) {
      return make(temporary, bytes, list, bound, stream());
    });
    batch.run(from, expected);
    EXPECT_EQ(to_host(to_there), expected);
  }

  template <kinds Kind, class Make>
  void expect_same_as_on_the_host(Make const& make)
  {
    expect_same_as_on_the_host<Kind>(0, 0, 1, make);
    expect_same_as_on_the_host<Kind>(0, 3000, 1, make);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      auto const count = static_cast<std::uint32_t>(seed * seed * 17);
      expect_same_as_on_the_host<Kind>(count, count, seed, make);
      expect_same_as_on_the_host<Kind>(count, count + 1000, seed + 100, make);
    }
  }
};

TEST_F(CopyBatch, MakesAllCopiesOfAList)
{
  expect_same_as_on_the_host<kinds::all>(tiled{});
  expect_same_as_on_the_host<kinds::all>(tiled{{64, 1}});
  expect_same_as_on_the_host<kinds::all>(tiled{{1 << 14, 9}});
}

TEST_F(CopyBatch, MakesAllCopiesOfAContiguousList)
{
  expect_same_as_on_the_host<kinds::contiguous>(tiled{});
  expect_same_as_on_the_host<kinds::contiguous>(tiled{{64, 1}});
  expect_same_as_on_the_host<kinds::contiguous>(tiled{{1 << 14, 9}});
}

using CubCopies = CopyBatch;

TEST_F(CubCopies, MakesAllCopiesOfAContiguousList)
{
  expect_same_as_on_the_host<kinds::contiguous>(cub_copies{});
}

// One copy of more than 2^32 bytes from an odd place to an even one.
TEST_F(CopyBatch, MakesACopyOfMoreThanFourGigabytes)
{
  constexpr std::size_t bytes = (std::size_t{1} << 32) + 123'457;
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &all_bytes), cudaSuccess);
  if (free_bytes < 3 * bytes) { GTEST_SKIP() << "the device has less than 13 GB free"; }
  device_bytes const from(bytes + 1);
  device_bytes const to(bytes);
  ASSERT_EQ(cudaMemsetAsync(from.data(), 0x11, from.size(), stream()), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(to.data(), 0, to.size(), stream()), cudaSuccess);
  ASSERT_EQ(wait(), cudaSuccess);
  auto const mark = random_bytes(30'000, 7);
  std::size_t const places[] = {0, (std::size_t{1} << 32) - 5000, bytes - mark.size()};
  for (std::size_t const place : places) {
    ASSERT_EQ(cudaMemcpy(from.data() + 1 + place, mark.data(), mark.size(), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  auto const copies =
      to_device(std::vector{strided_copy::contiguous(from.data() + 1, to.data(), bytes)});
  run([&](void* temporary, std::size_t& temporary_bytes) {
    return copy_batch(temporary, temporary_bytes,
                      listed_copies<kinds::contiguous>{copies.data(), 1}, 1, stream());
  });
  for (std::size_t const place : places) {
    std::vector<std::byte> there(mark.size());
    ASSERT_EQ(cudaMemcpy(there.data(), to.data() + place, there.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(there, mark) << "at " << place;
  }
}

TEST_F(CopyBatch, RefusesTooLittleTemporaryStorage)
{
  listed_copies<kinds::all> const list{nullptr, 0};
  std::size_t bytes = 0;
  ASSERT_EQ(copy_batch(nullptr, bytes, list, 100, stream()), cudaSuccess);
  device_bytes const temporary(bytes);
  --bytes;
  EXPECT_EQ(copy_batch(temporary.data(), bytes, list, 100, stream()), cudaErrorInvalidValue);
}

TEST(CopyBatchDeathTest, RefuseTilesThatAreNoPowerOfTwo)
{
  listed_copies<kinds::all> const list{nullptr, 0};
  std::size_t bytes = 0;
  EXPECT_DEATH((void)copy_batch(nullptr, bytes, list, 1, nullptr, {.tile_bytes = 96}),
               "tile_bytes is 96, which is not a power of two");
}

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
  auto const expect_replays = [&](auto const& make) {
    auto const call = [&](void* temporary, std::size_t& bytes) {
      return make(temporary, bytes, list, bound, stream());
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
  expect_replays(tiled{});
  expect_replays(cub_copies{});
}

}  // namespace
