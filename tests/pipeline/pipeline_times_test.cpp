#include <ballast/pipeline/pipeline_times.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::pipeline_times;
using ballast::stage_time;

static_assert(std::regular<pipeline_times>);

TEST(PipelineTimes, HasARowPerMicrobatchAndAColumnPerStage)
{
  pipeline_times times(2, 3);
  EXPECT_EQ(times.microbatches(), 2U);
  EXPECT_EQ(times.stages, 3U);
  times[microbatch_id{1}][2] = {5, 7};
  EXPECT_EQ(times.rows, (std::vector<stage_time>{{}, {}, {}, {}, {}, {5, 7}}));
  EXPECT_EQ(std::as_const(times)[microbatch_id{1}][2], (stage_time{5, 7}));
}

TEST(PipelineTimes, AsksForEachMicrobatchOnEachStage)
{
  pipeline_times const times(2, 3, [](std::size_t microbatch, std::size_t stage) {
    return stage_time{static_cast<ballast::time_units>(10 * microbatch + stage), 0};
  });
  EXPECT_EQ(times.stages, 3U);
  EXPECT_EQ(times.rows,
            (std::vector<stage_time>{{0, 0}, {1, 0}, {2, 0}, {10, 0}, {11, 0}, {12, 0}}));
}

TEST(PipelineTimes, MayHaveNoMicrobatch)
{
  EXPECT_EQ(pipeline_times().microbatches(), 0U);
  EXPECT_EQ(pipeline_times(0, 4).microbatches(), 0U);
}

TEST(PipelineTimesDeathTest, RefusesNoStageAndAMicrobatchThatDoesNotExist)
{
  EXPECT_DEATH(pipeline_times(1, 0), "on 0 stages");
  pipeline_times times(2, 3);
  EXPECT_DEATH((void)times[microbatch_id{2}], "microbatch 2 of times of 2 microbatches");
  EXPECT_DEATH((void)std::as_const(times)[microbatch_id{2}],
               "microbatch 2 of times of 2 microbatches");
}

}  // namespace
