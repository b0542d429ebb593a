// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/text/write_file.hpp>
#include <ballast/workload/input_rules.hpp>
#include <ballast/workload/read_raw_inputs.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using ballast::image_size;
using ballast::input_columns;
using ballast::load_raw_inputs;
using ballast::raw_input;
using ballast::read_raw_inputs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ReadRawInputs, ReadsTheColumnsThatAreNamed)
{
  EXPECT_THAT(read_raw_inputs("width,height,captions\n640,427,66\n",
                              {.text = "2*captions", .width = "width", .height = "height"})
                  .value(),
              ElementsAre(raw_input{.text = 132, .images = {{640, 427}}}));
  EXPECT_THAT(
      read_raw_inputs("text,dims\n5,16x17;640x480\n7,\n", {.text = "text", .images = "dims"})
          .value(),
      ElementsAre(raw_input{.text = 5, .images = {{16, 17}, {640, 480}}}, raw_input{.text = 7}));
  EXPECT_THAT(read_raw_inputs("frames,seconds\n369,5.8559\n",
                              {.video_frames = "frames", .audio_seconds = "seconds"})
                  .value(),
              ElementsAre(raw_input{.video_frames = 369, .audio_milliseconds = 5855}));
}

void expect_refused(std::string const& csv, input_columns const& columns, std::size_t position,
                    std::string const& why)
{
  auto const samples = read_raw_inputs(csv, columns);
  ASSERT_FALSE(samples) << csv;
  EXPECT_EQ(samples.error().position, position) << csv;
  EXPECT_THAT(samples.error().message, HasSubstr(why));
}

TEST(ReadRawInputs, NamesTheFirstBadRow)
{
  for (std::string const empty : {"", "\r", "\n\n"}) {
    expect_refused(empty, {}, 1, "line 1: there is no header");
  }
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
  expect_refused("a\nlong\n", {.audio_seconds = "a"}, 2, "'a'");
  expect_refused("a\n2147484\n", {.audio_seconds = "a"}, 2, "more than 2147483 seconds");
}

TEST(ReadRawInputs, LoadsFiles)
{
  auto const path =
      (std::filesystem::temp_directory_path() / "ballast_read_raw_inputs_test.csv").string();
  ASSERT_TRUE(ballast::write_file(path, "text\n5\n"));
  EXPECT_THAT(load_raw_inputs(path, {.text = "text"}).value(), ElementsAre(raw_input{.text = 5}));
  EXPECT_THAT(load_raw_inputs(path, {.images = "text"}).error().message,
              StartsWith(path + ": line 2: column 'text' holds '5'"));
  std::filesystem::remove(path);
  EXPECT_EQ(load_raw_inputs(path, {}).error().code, ballast::error_code::unreadable);
}

TEST(ReadRawInputs, ReadsRealTraces)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA does not name the folder of traces"; }
  std::string const folder = data;
  auto const images =
      load_raw_inputs(folder + "/coco_val2017_images.csv",
                      {.text = "caption_tokens_sum", .width = "width", .height = "height"});
  ASSERT_EQ(images.value().size(), 5000U);
  auto const documents = load_raw_inputs(folder + "/interleaved_docs.csv",
                                         {.text = "text_tokens", .images = "image_dims"});
  std::size_t seen = 0;
  for (raw_input const& each : documents.value()) { seen += each.images.size(); }
  EXPECT_EQ(seen, 4656U);
  auto const videos = load_raw_inputs(folder + "/nextqa_video.csv",
                                      {.text = "text_tokens", .video_frames = "frame_count"});
  for (auto const& [items, length] : ballast::shapes_of(videos.value(), ballast::llava_ov_inputs)) {
    EXPECT_LE(items, 32);
    EXPECT_GE(length, 196 * items + 1);
  }
  auto const speech = load_raw_inputs(folder + "/librispeech_mix_audio.csv",
                                      {.text = "text_tokens", .audio_seconds = "audio_seconds"});
  EXPECT_EQ(speech.value().at(0).audio_milliseconds, 5855);
}

}  // namespace
