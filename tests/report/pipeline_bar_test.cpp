// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/pipeline_bar.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

TEST(PipelineBar, IsAForwardUnlessItSaysOtherwise)
{
  ballast::report::pipeline_bar const bar{.rank = ballast::pipeline_rank{2}, .duration = 4};
  EXPECT_EQ(bar.pass, ballast::pass::forward);
  EXPECT_EQ(bar.rank, ballast::pipeline_rank{2});
  EXPECT_EQ(bar.start, 0);
}

}  // namespace
