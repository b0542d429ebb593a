// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/pipeline_timeline.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

using ballast::pipeline_rank;
using ballast::pipeline_timeline;

TEST(PipelineTimeline, SaysHowMuchOfTheTimeIsIdle)
{
  pipeline_timeline const timeline{.start = {}, .end = {}, .busy = {6, 2}, .makespan = 8};
  EXPECT_EQ(timeline.idle_share(), 0.5);
  EXPECT_EQ(timeline.idle_share(pipeline_rank{0}), 0.25);
  EXPECT_EQ(timeline.idle_share(pipeline_rank{1}), 0.75);
}

TEST(PipelineTimeline, IsNotIdleWhereNothingIsToBeDone)
{
  EXPECT_EQ(pipeline_timeline{}.idle_share(), 0.0);
  pipeline_timeline const nothing{.start = {}, .end = {}, .busy = {0}, .makespan = 0};
  EXPECT_EQ(nothing.idle_share(pipeline_rank{0}), 0.0);
}

TEST(PipelineTimelineDeathTest, RefusesARankThatItDoesNotHave)
{
  EXPECT_DEATH((void)pipeline_timeline{}.idle_share(pipeline_rank{0}),
               "rank 0 of a timeline of 0 ranks");
}

}  // namespace
