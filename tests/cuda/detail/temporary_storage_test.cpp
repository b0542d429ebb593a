// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/temporary_storage.hpp>

#include "../../support/test.hpp"

#include <ballast/cuda/detail/device_messages.hpp>

namespace {

using ballast::detail::temporary_storage;

/// Of a mover without rows: where its messages lie.
auto mover_in(std::span<std::byte> temporary)
{
  static int const nothing = 0;
  return ballast::detail::device_mover<int, int>(nothing, true, nothing, temporary, nullptr);
}

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

TEST(DeviceMover, GivesMessagesAnAlignedBeginning)
{
  std::vector<std::byte> memory(100 + 2 * temporary_storage::alignment);
  for (std::size_t before = 0; before < temporary_storage::alignment; ++before) {
    auto mover = mover_in(std::span(memory).subspan(before));
    auto const messages = mover.room(100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(messages.data()) % temporary_storage::alignment, 0U);
    EXPECT_GE(messages.data(), &memory[before]);
    EXPECT_EQ(messages.size(), 100U);
    EXPECT_LE(messages.data() + 100, memory.data() + memory.size());
  }
}

TEST(DeviceMoverDeathTest, RefusesMessagesThatItHasNoRoomFor)
{
  std::vector<std::byte> memory(temporary_storage::alignment);
  auto none = mover_in({});
  auto little = mover_in(memory);
  EXPECT_DEATH((void)none.room(0), "messages of 0 bytes do not fit");
  EXPECT_DEATH((void)little.room(memory.size() + 1), "do not fit the temporary storage");
}

TEST(DeviceMover, AreThereAtOnceSinceTheStreamKeepsTheOrder)
{
  EXPECT_TRUE(mover_in({}).arrive());
}

}  // namespace
