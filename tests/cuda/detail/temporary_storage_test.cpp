// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/temporary_storage.hpp>

#include "../../support/test.hpp"

namespace {

using ballast::detail::temporary_storage;

std::size_t place(void const* at)
{
  return reinterpret_cast<std::uintptr_t>(at) % temporary_storage::alignment;
}

TEST(TemporaryStorage, CutsAlignedArraysThatDoNotOverlap)  // Ensures (1) (2)
{
  temporary_storage asking(nullptr);
  EXPECT_EQ(asking.take<std::uint64_t>(33), nullptr);
  EXPECT_EQ(asking.take<std::byte>(0), nullptr);
  EXPECT_EQ(asking.take<std::byte>(1), nullptr);
  EXPECT_EQ(asking.take<std::uint32_t>(64), nullptr);
  EXPECT_TRUE(asking.is_only_asking());

  std::vector<std::byte> memory(asking.bytes() + temporary_storage::alignment);
  for (std::size_t before = 0; before < temporary_storage::alignment; ++before) {
    temporary_storage cut(&memory[before]);
    EXPECT_FALSE(cut.is_only_asking());
    auto* const sums = cut.take<std::uint64_t>(33);
    auto* const none = cut.take<std::byte>(0);
    auto* const flag = cut.take<std::byte>(1);
    auto* const words = cut.take<std::uint32_t>(64);
    EXPECT_EQ(cut.bytes(), asking.bytes());
    EXPECT_EQ(place(sums), 0U);
    EXPECT_EQ(place(flag), 0U);
    EXPECT_EQ(place(words), 0U);
    EXPECT_NE(none, nullptr);
    EXPECT_GE(reinterpret_cast<std::byte*>(sums), &memory[before]);
    EXPECT_GE(flag, reinterpret_cast<std::byte*>(sums + 33));
    EXPECT_GE(reinterpret_cast<std::byte*>(words), flag + 1);
    EXPECT_LE(reinterpret_cast<std::byte*>(words + 64), &memory[before] + asking.bytes());
  }
}

TEST(TemporaryStorage, OfNothingIsNotNothing)
{
  EXPECT_GT(temporary_storage(nullptr).bytes(), 0U);
}

}  // namespace
