// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/raw_inputs.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

namespace {

using model_inputs::input_columns;
using model_inputs::raw_input;
using model_inputs::read_raw_inputs;
using testing::ElementsAre;
using testing::HasSubstr;

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
