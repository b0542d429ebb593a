// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/copy/wide_access.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

using ballast::detail::bytes_across;
using ballast::detail::funnel_shift;
using ballast::detail::load_as;
using ballast::detail::store_as;

TEST(WideAccess, FunnelShiftTakesTheLowWordOfAShiftedPair)
{
  EXPECT_EQ(funnel_shift(0x04030201, 0x08070605, 0), 0x04030201U);
  EXPECT_EQ(funnel_shift(0x04030201, 0x08070605, 8), 0x05040302U);
  EXPECT_EQ(funnel_shift(0x04030201, 0x08070605, 24), 0x07060504U);
}

TEST(WideAccess, BytesAcrossTwoVectorsAreThoseInMemory)
{
  alignas(16) std::array<std::byte, 32> memory;
  for (std::size_t i = 0; i < memory.size(); ++i) { memory[i] = static_cast<std::byte>(i * 7 + 1); }
  for (std::uint32_t shift = 0; shift < 16; ++shift) {
    alignas(16) std::array<std::byte, 16> cut;
    store_as(cut.data(),
             bytes_across(load_as<uint4>(memory.data()), load_as<uint4>(&memory[16]), shift));
    EXPECT_EQ(std::memcmp(cut.data(), &memory[shift], cut.size()), 0) << "shift " << shift;
  }
}

}  // namespace
