// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/host_scratch.hpp>

#include <gtest/gtest.h>
#include "../../support/counted_allocations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

namespace {

using ballast::detail::host_scratch;

TEST(HostScratch, IsAlignedAndAsLargeAsAskedFor)  // Ensures (1)
{
  host_scratch scratch;
  for (std::size_t const bytes : {1U, 63U, 64U, 65U, 1000U, 100'000U}) {
    std::span<std::byte> const memory = scratch.take(bytes);
    EXPECT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0U);
    EXPECT_GE(scratch.size(), bytes);
    std::ranges::fill(memory, std::byte{1});  // a sanitizer sees whether it is all there
  }
}

TEST(HostScratch, OfNothingIsEmpty)
{
  host_scratch scratch;
  EXPECT_TRUE(scratch.take(0).empty());
  EXPECT_EQ(scratch.size(), 0U);
}

TEST(HostScratch, StaysInPlaceUntilMoreIsAskedFor)  // Ensures (2)
{
  host_scratch scratch;
  std::span<std::byte> const first = scratch.take(1000);
  std::ranges::fill(first, std::byte{7});
  std::size_t const before = ballast_test::allocations();
  for (std::size_t const bytes : {0U, 10U, 1000U, 1024U}) {  // the last fills the last line
    EXPECT_EQ(scratch.take(bytes).data(), first.data());
  }
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_EQ(std::ranges::count(first, std::byte{7}), 1000);
  EXPECT_EQ(scratch.take(1025).size(), 1025U);
}

TEST(HostScratch, MovesWithItsMemory)
{
  host_scratch first;
  std::byte* const memory = first.take(100).data();
  host_scratch second = std::move(first);
  EXPECT_EQ(second.take(100).data(), memory);
  first = host_scratch();
  EXPECT_EQ(first.take(10).size(), 10U);
}

TEST(HostScratch, RefusesWhatNoMachineHasAndServesAgain)  // Errors
{
  host_scratch scratch;
  EXPECT_EQ(scratch.take(100).size(), 100U);
  EXPECT_THROW((void)scratch.take(std::numeric_limits<std::size_t>::max()), std::length_error);
  EXPECT_EQ(scratch.size(), 0U);
  EXPECT_EQ(scratch.take(100).size(), 100U);
}

}  // namespace
