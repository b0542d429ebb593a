// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/gpu_place.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

using ballast::gpu_place;

TEST(GpuPlace, DiffersInEachMember)
{
  gpu_place const place{1, 2, 3, 4};
  EXPECT_EQ(place, (gpu_place{1, 2, 3, 4}));
  EXPECT_NE(place, (gpu_place{0, 2, 3, 4}));
  EXPECT_NE(place, (gpu_place{1, 0, 3, 4}));
  EXPECT_NE(place, (gpu_place{1, 2, 0, 4}));
  EXPECT_NE(place, (gpu_place{1, 2, 3, 0}));
}

}  // namespace
