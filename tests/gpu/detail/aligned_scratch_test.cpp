// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/aligned_scratch.hpp>

#include "../../support/barely_aligned_allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace {

using ballast::detail::aligned_scratch;
using ballast_test::barely_aligned_allocator;

TEST(AlignedScratch, IsAlignedWhateverTheAllocator)  // Ensures (1)
{
  aligned_scratch<barely_aligned_allocator<std::byte>> scratch{{}};
  for (std::size_t const bytes : {1U, 63U, 64U, 65U, 10'000U, 7U}) {
    auto const memory = scratch.take(bytes, [] {});
    EXPECT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
    std::ranges::fill(memory, std::byte{1});  // all of it is there, a sanitizer says
  }
}

TEST(AlignedScratch, KeepsWhatItHasOutgrown)  // Ensures (4)
{
  aligned_scratch<std::allocator<std::byte>> scratch{{}};
  auto const small = scratch.take(100, [] {});
  auto const large = scratch.take(10'000, [] {});
  std::ranges::fill(small, std::byte{4});  // a peer may still copy it; a sanitizer would see a free
  std::ranges::fill(large, std::byte{5});
  EXPECT_EQ(small.front(), std::byte{4});
  int pauses = 0;
  for (std::size_t bytes = 10'001; bytes < 100'000; bytes += 100) {
    (void)scratch.take(bytes, [&] { ++pauses; });
  }
  EXPECT_LE(pauses, 4);
}

TEST(AlignedScratch, IsQuietBeforeItAllocates)  // Ensures (2) (3)
{
  aligned_scratch<std::allocator<std::byte>> scratch{{}};
  std::span<std::byte> memory;
  int pauses = 0;
  auto const take = [&](std::size_t bytes) {
    memory = scratch.take(bytes, [&] {
      ++pauses;
      std::ranges::fill(memory, std::byte{3});  // what was queued uses the old memory
    });
  };
  take(100);
  EXPECT_EQ(pauses, 1);
  std::ranges::fill(memory, std::byte{2});
  std::byte const* const first = memory.data();
  for (std::size_t const bytes : {0U, 100U, 50U}) {
    take(bytes);
    EXPECT_EQ(memory.data(), first);
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{2}; }));
  }
  EXPECT_EQ(pauses, 1);
  take(100);
  take(400);
  EXPECT_EQ(pauses, 2);
}

}  // namespace
