// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/pipeline_bars.hpp>

#include <gtest/gtest.h>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <cstddef>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::pass;
using ballast::report::pipeline_bar;

TEST(PipelineBars, AreTheTasksOfEveryRankInOrder)  // Ensures (1)
{
  auto const stages = ballast::chain_of_stages(2, 2);
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 2).value();
  ballast::pipeline_times times(2, 2);
  times.rows = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
  std::vector const order = {microbatch_id{1}, microbatch_id{0}};
  auto const bars = ballast::report::pipeline_bars(
      schedule, ballast::simulate(schedule, times, order), order, 0.5);
  // Rank 0: F1 0-5, F0 5-6, B1 20-26, B0 27-29. Rank 1: F1 5-12, B1 12-20, F0 20-23, B0 23-27.
  struct expected {
    unsigned rank, microbatch;
    pass kind;
    double start, end;
  };
  std::vector<expected> const all = {
      {0, 1, pass::forward, 0, 5},    {0, 0, pass::forward, 5, 6},   {0, 1, pass::backward, 20, 26},
      {0, 0, pass::backward, 27, 29}, {1, 1, pass::forward, 5, 12},  {1, 1, pass::backward, 12, 20},
      {1, 0, pass::forward, 20, 23},  {1, 0, pass::backward, 23, 27}};
  ASSERT_EQ(bars.size(), all.size());
  for (std::size_t at = 0; at < all.size(); ++at) {
    pipeline_bar const& bar = bars[at];
    EXPECT_EQ(to_index(bar.rank), all[at].rank) << at;
    EXPECT_EQ(to_index(bar.stage), all[at].rank) << at;
    EXPECT_EQ(to_index(bar.microbatch), all[at].microbatch) << at;
    EXPECT_EQ(bar.pass, all[at].kind) << at;
    EXPECT_EQ(bar.start, all[at].start / 2) << at;
    EXPECT_EQ(bar.start + bar.duration, all[at].end / 2) << at;
  }
}

TEST(PipelineBars, AreNoneWithoutMicrobatches)
{
  auto const stages = ballast::chain_of_stages(3, 3);
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 0).value();
  ballast::pipeline_times const times(0, 3);
  EXPECT_TRUE(
      ballast::report::pipeline_bars(schedule, ballast::simulate(schedule, times, {}), {}).empty());
}

TEST(PipelineBarsDeathTest, RefuseATimelineAndAnOrderOfAnotherSchedule)
{
  auto const stages = ballast::chain_of_stages(1, 1);
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 1).value();
  EXPECT_DEATH((void)ballast::report::pipeline_bars(schedule, {}, {}),
               "the timeline has 0 tasks, and the schedule 2");
  auto const timeline =
      ballast::simulate(schedule, ballast::pipeline_times(1, 1), std::vector<microbatch_id>(1));
  EXPECT_DEATH((void)ballast::report::pipeline_bars(schedule, timeline, {}),
               "the order has 0 microbatches, and the schedule 1");
}

}  // namespace
