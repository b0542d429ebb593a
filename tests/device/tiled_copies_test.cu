// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/copy_batch.cuh>

#include <gtest/gtest.h>

#include <ballast/cuda/tables.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../bench/gpu/cub_copies.cuh"
#include "../cuda/copy_batches.hpp"
#include "gpu_test.hpp"

namespace {

using ballast::copy_policy;
using ballast::strided_copy;
using ballast::tiled_copies;
using ballast_test::copy_batch_case;
using ballast_test::device_bytes;
using ballast_test::kinds;
using ballast_test::listed_copies;
using ballast_test::random_bytes;
using bench::cub_copies;

static_assert(copy_policy<tiled_copies, listed_copies<kinds::contiguous>>);
static_assert(copy_policy<tiled_copies, listed_copies<kinds::all>>);
static_assert(copy_policy<cub_copies, listed_copies<kinds::contiguous>>);
static_assert(!copy_policy<cub_copies, listed_copies<kinds::all>>);

/// A test of one policy of copy_batch.
class TiledCopies : public ballast_test::gpu_test {
 protected:
  /// Makes `count` random copies by a list of `bound`. The arrays end where the copies do: a byte
  /// too far is what compute-sanitizer finds.
  template <kinds Kind, class Policy>
  void expect_same_as_on_the_host(std::uint32_t count, std::uint32_t bound, std::uint64_t seed,
                                  Policy const& policy)
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
      return policy(temporary, bytes, list, bound, stream());
    });
    batch.run(from, expected);
    EXPECT_EQ(to_host(to_there), expected);
  }

  template <kinds Kind, class Policy>
  void expect_same_as_on_the_host(Policy const& policy)
  {
    expect_same_as_on_the_host<Kind>(0, 0, 1, policy);
    expect_same_as_on_the_host<Kind>(0, 3000, 1, policy);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      auto const count = static_cast<std::uint32_t>(seed * seed * 17);
      expect_same_as_on_the_host<Kind>(count, count, seed, policy);
      expect_same_as_on_the_host<Kind>(count, count + 1000, seed + 100, policy);
    }
  }
};

TEST_F(TiledCopies, MakesAllCopiesOfAList)
{
  expect_same_as_on_the_host<kinds::all>(tiled_copies{});
  expect_same_as_on_the_host<kinds::all>(tiled_copies{64, 1});
  expect_same_as_on_the_host<kinds::all>(tiled_copies{1 << 14, 9});
}

TEST_F(TiledCopies, MakesAllCopiesOfAContiguousList)
{
  expect_same_as_on_the_host<kinds::contiguous>(tiled_copies{});
  expect_same_as_on_the_host<kinds::contiguous>(tiled_copies{64, 1});
  expect_same_as_on_the_host<kinds::contiguous>(tiled_copies{1 << 14, 9});
}

using CubCopies = TiledCopies;

TEST_F(CubCopies, MakesAllCopiesOfAContiguousList)
{
  expect_same_as_on_the_host<kinds::contiguous>(cub_copies{});
}

// One copy of more than 2^32 bytes from an odd place to an even one.
TEST_F(TiledCopies, MakesACopyOfMoreThanFourGigabytes)
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
    return tiled_copies{}(temporary, temporary_bytes,
                          listed_copies<kinds::contiguous>{copies.data(), 1}, 1, stream());
  });
  for (std::size_t const place : places) {
    std::vector<std::byte> there(mark.size());
    ASSERT_EQ(cudaMemcpy(there.data(), to.data() + place, there.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(there, mark) << "at " << place;
  }
}

TEST_F(TiledCopies, RefusesTooLittleTemporaryStorage)
{
  listed_copies<kinds::all> const list{nullptr, 0};
  std::size_t bytes = 0;
  ASSERT_EQ(tiled_copies{}(nullptr, bytes, list, 100, stream()), cudaSuccess);
  device_bytes const temporary(bytes);
  --bytes;
  EXPECT_EQ(tiled_copies{}(temporary.data(), bytes, list, 100, stream()), cudaErrorInvalidValue);
}

TEST(TiledCopiesDeathTest, RefuseTilesThatAreNoPowerOfTwo)
{
  listed_copies<kinds::all> const list{nullptr, 0};
  std::size_t bytes = 0;
  EXPECT_DEATH((void)tiled_copies{.tile_bytes = 96}(nullptr, bytes, list, 1, nullptr),
               "tile_bytes is 96, which is not a power of two");
}

}  // namespace
