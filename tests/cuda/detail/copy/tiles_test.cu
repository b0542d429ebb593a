// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/tiles.cuh>

#include <gtest/gtest.h>
#include <ballast/cuda/detail/temporary_storage.hpp>

namespace {

using ballast::detail::copy_tiles;
using ballast::detail::temporary_storage;

TEST(CopyTiles, AreCutOutOfStorageAndHaveAPrefix)
{
  std::vector<std::byte> memory(4096);
  temporary_storage storage(memory.data());
  auto const all = copy_tiles::in(storage, 100);
  EXPECT_GE(reinterpret_cast<std::byte*>(all.taken),
            reinterpret_cast<std::byte*>(all.tiles_to + 100));
  auto const some = all.first(7);
  EXPECT_EQ(some.tiles_to, all.tiles_to);
  EXPECT_EQ(some.count, 7U);
  EXPECT_EQ(some.tile_bytes, 4096U);
}

}  // namespace
