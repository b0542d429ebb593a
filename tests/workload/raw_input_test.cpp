// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <ballast/workload/raw_input.hpp>

namespace {

TEST(RawInput, IsEmptyByDefault)
{
  ballast::raw_input const sample;
  EXPECT_EQ(sample.text, 0);
  EXPECT_TRUE(sample.images.empty());
  EXPECT_EQ(sample.video_frames, 0);
  EXPECT_EQ(sample.audio_milliseconds, 0);
}

}  // namespace
