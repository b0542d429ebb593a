// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/device_messages.hpp>

#include "../../support/test.hpp"

#include <ballast/cuda/detail/temporary_storage.hpp>

namespace {

using ballast::detail::device_messages;
using ballast::detail::temporary_storage;

TEST(DeviceMessages, GivesMessagesAnAlignedBeginning)
{
  std::vector<std::byte> memory(100 + 2 * temporary_storage::alignment);
  for (std::size_t before = 0; before < temporary_storage::alignment; ++before) {
    device_messages mover{std::span(memory).subspan(before), nullptr, nullptr};
    auto const messages = mover.room(100);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(messages.data()) % temporary_storage::alignment, 0U);
    EXPECT_GE(messages.data(), &memory[before]);
    EXPECT_EQ(messages.size(), 100U);
    EXPECT_LE(messages.data() + 100, memory.data() + memory.size());
  }
}

TEST(DeviceMessagesDeathTest, RefusesMessagesThatItHasNoRoomFor)
{
  std::vector<std::byte> memory(temporary_storage::alignment);
  device_messages none({}, nullptr, nullptr);
  device_messages little(memory, nullptr, nullptr);
  EXPECT_DEATH((void)none.room(0), "messages of 0 bytes do not fit");
  EXPECT_DEATH((void)little.room(memory.size() + 1), "do not fit the temporary storage");
}

TEST(DeviceMessages, AreThereAtOnceSinceTheStreamKeepsTheOrder)
{
  EXPECT_TRUE(device_messages({}, nullptr, nullptr).arrive());
}

}  // namespace
