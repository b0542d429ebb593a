// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/workload/input_rules.hpp>

#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace {

using ballast::image_size;
using ballast::input_shape;
using ballast::raw_input;
using testing::ElementsAre;

raw_input with_images(std::vector<image_size> images, ballast::tokens text = 0)
{
  return {.text = text, .images = std::move(images)};
}

TEST(MergedPatches, AreSquaresOfPatches)
{
  static_assert(ballast::merged_patches{448, 14, 2}() == 256);
  static_assert(ballast::merged_patches{384, 14, 2}() == 196);  // 27 patches, the last one alone
  static_assert(ballast::merged_patches{336, 14, 1}() == 576);
}

// A page of the docs computes these by hand.
TEST(InternVlInputs, AreTilesOfTwoHundredFiftySixTokens)
{
  // [internvl]
  auto const& rules = ballast::internvl_2_5_inputs;
  // 640 x 427 pixels are nearest to 3 x 2 tiles; with the thumbnail 7, and 2 tokens around them.
  EXPECT_EQ(rules({.text = 66, .images = {{640, 427}}}), (input_shape{7, 66 + 7 * 256 + 2}));
  // Of a video 32 frames are taken.
  EXPECT_EQ(rules({.text = 24, .video_frames = 369}), (input_shape{32, 24 + 32 * (256 + 2)}));
  // [internvl]
  EXPECT_EQ(rules(with_images({{448, 448}})), (input_shape{1, 258})) << "no thumbnail";
  EXPECT_EQ(rules({.video_frames = 5}), (input_shape{5, 5 * 258}));
  EXPECT_EQ(rules({.text = 9}), (input_shape{0, 9}));
}

TEST(InternVlInputs, ShareTheTilesAmongImages)
{
  auto const& rules = ballast::internvl_2_5_inputs;
  // Six tiles each: 3 x 2 and a thumbnail, twice.
  EXPECT_EQ(rules(with_images({{640, 427}, {640, 427}})), (input_shape{14, 2 * (7 * 256 + 2)}));
  EXPECT_EQ(rules(with_images(std::vector<image_size>(20, {640, 427}))),
            (input_shape{20, 20 * (256 + 2)}))
      << "one tile each";
}

TEST(LlavaInputs, AreTheWholeImageAndItsGrid)
{
  auto const& rules = ballast::llava_ov_inputs;
  // 2 x 2 tiles are 54 x 54 patches, of which 36 rows show the image: 36 x (54 + 1) and 27 x 27.
  EXPECT_EQ(rules(with_images({{640, 427}}, 66)), (input_shape{5, 66 + 1980 + 729}));
  EXPECT_EQ(rules(with_images({{427, 640}})), (input_shape{5, 54 * (36 + 1) + 729}));
  EXPECT_EQ(rules(with_images({{16, 16}})), (input_shape{2, 27 * 28 + 729}));
  // 162 x 162 patches are four times nine tiles: 81 x 81 are left.
  EXPECT_EQ(rules(with_images({{2304, 2304}})), (input_shape{37, 81 * 82 + 729}));
  EXPECT_EQ(rules(with_images({{1920, 1080}})), (input_shape{16, 7269}));
  EXPECT_EQ(rules(with_images({{640, 427}, {16, 16}, {9, 9}})), (input_shape{3, 3 * 730}));
}

TEST(LlavaInputs, AreOneFrameASecond)
{
  auto const& rules = ballast::llava_ov_inputs;
  EXPECT_EQ(rules({.text = 24, .video_frames = 369}), (input_shape{13, 24 + 13 * 196 + 1}));
  EXPECT_EQ(rules({.video_frames = 972}), (input_shape{32, 32 * 196 + 1})) << "of 33";
  EXPECT_EQ(rules({.video_frames = 1}), (input_shape{1, 197}));
  EXPECT_EQ(rules({}), input_shape());
}

TEST(PooledAudio, HalvesTwice)
{
  constexpr ballast::pooled_audio audio;
  static_assert(audio(5855) == input_shape{1, 146});  // 585 spectra, 293 after the convolution
  EXPECT_EQ(audio(4815), (input_shape{1, 120}));
  EXPECT_EQ(audio(30'000), (input_shape{1, 750}));
  EXPECT_EQ(audio(65'000), (input_shape{3, 2 * 750 + 125}));
  EXPECT_EQ(audio(0), input_shape());
  EXPECT_EQ(audio(5), (input_shape{1, 0}));
}

TEST(InputRules, ComposeRulesOfTheirOwn)
{
  constexpr ballast::input_rules rules{ballast::unread_input{}, ballast::unread_input{},
                                       ballast::pooled_audio{}};
  raw_input const sample{
      .text = 10, .images = {{640, 427}}, .video_frames = 9, .audio_milliseconds = 30'000};
  EXPECT_EQ(rules(sample), (input_shape{1, 760}));

  // A callable of the caller's is a rule too.
  ballast::input_rules const own{
      [](std::span<image_size const> images) { return input_shape{std::ssize(images), 5}; },
      ballast::unread_input{}, ballast::unread_input{}};
  EXPECT_EQ(own(sample), (input_shape{1, 15}));
  std::array<raw_input, 2> const samples = {sample, raw_input{.text = 3}};
  EXPECT_THAT(ballast::shapes_of(samples, own), ElementsAre(input_shape{1, 15}, input_shape{0, 8}));
}

}  // namespace
