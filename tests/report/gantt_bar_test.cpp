// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/gantt_bar.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

TEST(GanttBar, IsMadeFromAGpuTimesAndALabel)
{
  ballast::report::gantt_bar const bar{ballast::rank_id{3}, 1.5, 2, "sample 7"};
  EXPECT_EQ(bar.gpu, ballast::rank_id{3});
  EXPECT_EQ(bar.start + bar.duration, 3.5);
  EXPECT_EQ(bar.label, "sample 7");
}

}  // namespace
