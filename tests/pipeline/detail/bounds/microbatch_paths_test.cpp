// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>  // first: proves it is self-contained

#include "../../../support/random_schedules.hpp"
#include "../../../support/random_times.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/simulate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace {

using ballast::pass;
using ballast::time_units;
using ballast::detail::microbatch_paths;
using ballast::detail::time_columns;

// Oracle: the same stages, each on a rank of its own, with one microbatch and nothing else to do.
TEST(MicrobatchPaths, AreTheLongestPathsOfAMicrobatchAlone)  // Ensures (1) (2)
{
  ballast::random_source random(2);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const stages = ballast_test::random_stages(random, true);
    auto const tasks = ballast_test::random_schedule(random, stages, 1);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    std::size_t const microbatches = 1 + random.below(4);
    auto const times = ballast_test::random_times(random, microbatches, stages.stages(), 9);
    ballast::workspace memory;
    auto scratch = memory.open();
    time_columns const columns(times, scratch);
    microbatch_paths const paths(stages, columns, scratch);
    time_units longest = 0;
    for (std::size_t at = 0; at < microbatches; ++at) {
      std::array const alone{ballast::to_id<ballast::microbatch_id>(at)};
      auto const timeline = simulate(schedule, times, alone);
      longest = std::max(longest, timeline.makespan);
      std::vector<time_units> after(schedule.tasks().size(), 0);
      for (std::size_t task = after.size(); task-- > 0;) {
        for (auto const& [other, transfer] : schedule.waits_for(task)) {
          after[other] = std::max(
              after[other], timeline.end[task] - timeline.start[task] + after[task] + transfer);
        }
        std::size_t const column = time_columns::column_of(schedule.tasks()[task]);
        ASSERT_EQ(paths.before(column)[at], timeline.start[task]);
        ASSERT_EQ(paths.after(column)[at], after[task]);
      }
      for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
        auto const id = ballast::to_id<ballast::stage_id>(stage);
        if (!stages[id].backward) { continue; }
        auto const forward = time_columns::column_of(id, pass::forward);
        ASSERT_LE(paths.between(id)[at],
                  paths.before(forward + 1)[at] - paths.before(forward)[at] - columns[forward][at]);
      }
    }
    ASSERT_EQ(paths.longest(columns), longest);
  }
}

TEST(MicrobatchPaths, ComeBackToAStageOfAChainAfterAllThatFollow)  // Ensures (2)
{
  auto const stages = ballast::chain_of_stages(3, 3, 5);
  ballast::pipeline_times times(1, 3);
  times.rows = {{1, 2}, {10, 20}, {100, 200}};
  ballast::workspace memory;
  auto scratch = memory.open();
  time_columns const columns(times, scratch);
  microbatch_paths const paths(stages, columns, scratch);
  EXPECT_EQ(paths.between(ballast::stage_id{0})[0], 350);
  EXPECT_EQ(paths.between(ballast::stage_id{1})[0], 310);
  EXPECT_EQ(paths.between(ballast::stage_id{2})[0], 0);
  EXPECT_EQ(paths.longest(columns), 353);
}

}  // namespace
