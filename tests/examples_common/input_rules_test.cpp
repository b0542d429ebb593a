// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/input_rules.hpp"  // first: proves it is self-contained

#include "../../examples/common/raw_inputs.hpp"
#include "../support/test.hpp"

namespace {

using model_inputs::best_fit_tiles;
using model_inputs::image_size;
using model_inputs::input_columns;
using model_inputs::input_shape;
using model_inputs::nearest_aspect_tiles;
using model_inputs::raw_input;
using model_inputs::read_raw_inputs;
using model_inputs::tile_grid;
using testing::ElementsAre;
using testing::HasSubstr;

raw_input with_images(std::vector<image_size> const& images)
{
  return {.images = images};
}

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
  EXPECT_EQ(tiles({5000, 5000}), (tile_grid{6, 6}));
  EXPECT_EQ(tiles({2304, 300}), (tile_grid{6, 1}));
  EXPECT_EQ(tiles({model_inputs::most_pixels, 1}), (tile_grid{1, 1})) << "nothing of it is left";
}

TEST(InternVlInputs, AreTilesOfTwoHundredFiftySixTokens)
{
  auto const& rules = model_inputs::internvl_2_5_inputs;
  // 640 x 427 pixels are nearest to 3 x 2 tiles; with the thumbnail 7, and 2 tokens around them.
  EXPECT_EQ(rules({.text = 66, .images = {{640, 427}}}), (input_shape{7, 66 + 7 * 256 + 2}));
  EXPECT_EQ(rules({.text = 24, .video_frames = 369}), (input_shape{32, 24 + 32 * (256 + 2)}));
  EXPECT_EQ(rules(with_images({{448, 448}})), (input_shape{1, 258})) << "no thumbnail";
  EXPECT_EQ(rules({.text = 9, .video_frames = 5}), (input_shape{5, 9 + 5 * 258}));
  // Six tiles each: 3 x 2 and a thumbnail, twice.
  EXPECT_EQ(rules(with_images({{640, 427}, {640, 427}})), (input_shape{14, 2 * (7 * 256 + 2)}));
  EXPECT_EQ(rules(with_images(std::vector<image_size>(20, {640, 427}))),
            (input_shape{20, 20 * (256 + 2)}))
      << "one tile each";
}

TEST(LlavaInputs, AreTheWholeImageAndItsGrid)
{
  auto const& rules = model_inputs::llava_ov_inputs;
  // 2 x 2 tiles are 54 x 54 patches, of which 36 rows show the image: 36 x (54 + 1) and 27 x 27.
  EXPECT_EQ(rules(with_images({{640, 427}})), (input_shape{5, 1980 + 729}));
  EXPECT_EQ(rules(with_images({{427, 640}})), (input_shape{5, 54 * (36 + 1) + 729}));
  EXPECT_EQ(rules(with_images({{16, 16}})), (input_shape{2, 27 * 28 + 729}));
  // 162 x 162 patches are four times nine tiles: 81 x 81 are left.
  EXPECT_EQ(rules(with_images({{2304, 2304}})), (input_shape{37, 81 * 82 + 729}));
  EXPECT_EQ(rules(with_images({{1920, 1080}})), (input_shape{16, 7269}));
  EXPECT_EQ(rules(with_images({{640, 427}, {16, 16}, {9, 9}})), (input_shape{3, 3 * 730}));
}

TEST(LlavaInputs, AreOneFrameASecond)
{
  auto const& rules = model_inputs::llava_ov_inputs;
  EXPECT_EQ(rules({.text = 24, .video_frames = 369}), (input_shape{13, 24 + 13 * 196 + 1}));
  EXPECT_EQ(rules({.video_frames = 972}), (input_shape{32, 32 * 196 + 1})) << "of 33";
  EXPECT_EQ(rules({.video_frames = 1}), (input_shape{1, 197}));
  EXPECT_EQ(rules({}), input_shape());
}

// Rows stay whole, and each is as likely as the others.
TEST(InputShapes, AreDrawnByRow)
{
  std::array<input_shape, 3> const rows = {{{1, 10}, {2, 20}, {3, 30}}};
  auto const draw = [&](std::uint64_t seed) {
    return model_inputs::draw_rows(std::span<input_shape const>(rows), 30'000, seed);
  };
  auto const drawn = draw(7);
  std::map<std::int64_t, int> seen;
  for (auto const& each : drawn) {
    EXPECT_EQ(each.length, 10 * each.items);
    ++seen[each.items];
  }
  ASSERT_EQ(drawn.size(), 30'000U);
  for (auto const& [items, times] : seen) { EXPECT_NEAR(times, 10'000, 400) << items; }
  EXPECT_EQ(draw(7), drawn);
  EXPECT_NE(draw(8), drawn);
}

TEST(RawInputs, AreReadFromTheColumnsThatAreNamed)
{
  EXPECT_THAT(read_raw_inputs("width,height,captions\n640,427,66\n",
                              {.text = "2*captions", .width = "width", .height = "height"})
                  .value(),
              ElementsAre(raw_input{.text = 132, .images = {{640, 427}}}));
  EXPECT_THAT(
      read_raw_inputs("text,dims\n5,16x17;640x480\n7,\n", {.text = "text", .images = "dims"})
          .value(),
      ElementsAre(raw_input{.text = 5, .images = {{16, 17}, {640, 480}}}, raw_input{.text = 7}));
  EXPECT_THAT(read_raw_inputs("frames\n369\n", {.video_frames = "frames"}).value(),
              ElementsAre(raw_input{.video_frames = 369}));
}

void expect_refused(std::string const& csv, input_columns const& columns, std::size_t position,
                    std::string const& why)
{
  auto const samples = read_raw_inputs(csv, columns);
  ASSERT_FALSE(samples) << csv;
  EXPECT_EQ(samples.error().position, position) << csv;
  EXPECT_THAT(samples.error().message, HasSubstr(why));
}

TEST(RawInputs, NameTheFirstBadRow)
{
  expect_refused("\n\n", {}, 1, "line 1: there is no header");
  expect_refused("a\n", {}, 1, "no row follows the header");
  expect_refused("a,b\n1,2\n1\n", {}, 3, "the number of fields is 1");
  expect_refused("a\n1\n", {.width = "a"}, 0, "name both");
  expect_refused("a\n1\n", {.text = "b"}, 0, "'b'");
  expect_refused("a\n1\n", {.images = "b"}, 0, "there is no column 'b'");
  expect_refused("a\nx\n", {.text = "a"}, 2, "whole number");
  expect_refused("a\n-1\n", {.text = "a"}, 2, "'a' is -1, expected 0 to");
  expect_refused("a\n0\n", {.width = "a", .height = "a"}, 2, "expected 1 to 16777216");
  for (std::string const bad : {"1x", "x1", "1", "1x2;;1x2", "1x2x3", "0x5", "1x16777217", ";"}) {
    expect_refused("a\n" + bad + "\n", {.images = "a"}, 2, "such as 640x480;1920x1080");
  }
}

}  // namespace
