// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/copy/warp.hpp>

#include <gtest/gtest.h>

namespace {

using ballast::detail::first_lane;

TEST(FirstLane, IsTheLowestThatVoted)
{
  EXPECT_EQ(first_lane(1), 0U);
  EXPECT_EQ(first_lane(0xffffffff), 0U);
  EXPECT_EQ(first_lane(0xfff00000), 20U);
  EXPECT_EQ(first_lane(0x80000000), 31U);
}

}  // namespace
