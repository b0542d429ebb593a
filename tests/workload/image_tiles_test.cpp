// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <ballast/workload/image_tiles.hpp>

#include <cstdint>

namespace {

using ballast::best_fit_tiles;
using ballast::image_size;
using ballast::nearest_aspect_tiles;
using ballast::tile_grid;

TEST(NearestAspectTiles, FollowTheAspectRatio)
{
  constexpr nearest_aspect_tiles tiles;
  static_assert(tiles({640, 427}, 12) == tile_grid{3, 2});  // 1.499, and 3/2 is nearest
  EXPECT_EQ(tiles({427, 640}, 12), (tile_grid{2, 3}));
  EXPECT_EQ(tiles({640, 480}, 12), (tile_grid{4, 3}));
  EXPECT_EQ(tiles({640, 480}, 6), (tile_grid{3, 2})) << "1.333 is as far from 1 as from 1.667";
  EXPECT_EQ(tiles({1920, 1080}, 12), (tile_grid{4, 2})) << "2/1, and large enough for eight";
  EXPECT_EQ(tiles({21, 18}, 12), (tile_grid{1, 1})) << "7/6 is exactly as far from 1 as from 4/3";
  EXPECT_EQ(tiles({10'000, 100}, 12), (tile_grid{12, 1}));
  EXPECT_EQ(tiles({640, 427}, 1), (tile_grid{1, 1}));
}

// A larger grid of the same ratio needs more than half of its pixels: 448^2 n / 2.
TEST(NearestAspectTiles, GrowWithTheImage)
{
  constexpr nearest_aspect_tiles tiles;
  EXPECT_EQ(tiles({448, 448}, 12), (tile_grid{1, 1}));
  EXPECT_EQ(tiles({633, 633}, 12), (tile_grid{1, 1})) << "400,689 of 401,408";
  EXPECT_EQ(tiles({634, 634}, 12), (tile_grid{2, 2})) << "401,956";
  EXPECT_EQ(tiles({950, 950}, 12), (tile_grid{2, 2})) << "902,500 of 903,168";
  EXPECT_EQ(tiles({951, 951}, 12), (tile_grid{3, 3})) << "904,401";
}

TEST(BestFitTiles, KeepPixelsThenWasteFew)
{
  constexpr best_fit_tiles tiles;
  static_assert(tiles({640, 427}) == tile_grid{2, 2});  // 2 x 1 would keep 575 x 384
  EXPECT_EQ(tiles({16, 16}), (tile_grid{1, 1}));
  EXPECT_EQ(tiles({384, 768}), (tile_grid{1, 2}));
  EXPECT_EQ(tiles({2304, 2304}), (tile_grid{6, 6}));
  EXPECT_EQ(tiles({5000, 5000}), (tile_grid{6, 6}));
  EXPECT_EQ(tiles({2304, 300}), (tile_grid{6, 1}));
  EXPECT_EQ(tiles({ballast::most_pixels, 1}), (tile_grid{1, 1})) << "nothing of it is left";
}

}  // namespace
