// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/task_bounds.hpp>  // first: proves it is self-contained

#include "../../../support/bound_cases.hpp"
#include "../../../support/numbered_order.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/gpipe.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using ballast_test::bound_parts;
using ballast_test::numbered_order;

TEST(TaskBounds, HoldForEveryTaskUnderEveryOrder)  // Ensures (1) (2)
{
  ballast::random_source random(3);
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_small_step(random, 4);
    if (step.schedule.microbatches() == 0) { continue; }
    bound_parts const parts(step);
    auto order = numbered_order(step.schedule.microbatches());
    for (bool more = true; more; more = std::ranges::next_permutation(order).found) {
      auto const timeline = simulate(step.schedule, step.times, order);
      for (std::size_t task = 0; task < timeline.start.size(); ++task) {
        ASSERT_LE(parts.bounds.heads()[task], timeline.start[task]);
        ASSERT_LE(parts.bounds.tails()[task], timeline.makespan - timeline.end[task]);
      }
      ASSERT_LE(parts.bounds.longest(step.schedule, parts.columns), timeline.makespan);
    }
  }
}

// All forwards of the slowest stage come before any backward, and all its backwards after: no rank
// need be idle for a single microbatch to show that.
TEST(TaskBounds, AddUpBothPhasesOfGPipe)
{
  auto const stages = ballast::chain_of_stages(3, 3);
  auto const tasks = ballast::gpipe{}(stages, 4).value();
  ballast_test::small_step step{ballast::compiled_schedule::make(stages, tasks).value(),
                                ballast::pipeline_times(4, 3)};
  for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
    step.times.rows[at] = at % 3 == 0   ? ballast::stage_time{10, 1}
                          : at % 3 == 1 ? ballast::stage_time{1, 20}
                                        : ballast::stage_time{1, 1};
  }
  bound_parts const parts(step);
  // Four forwards on stage 0, the last one on to stage 2, and one backward from there; then four
  // backwards on stage 1, and the last one on stage 0.
  EXPECT_EQ(parts.bounds.longest(step.schedule, parts.columns), 40 + 2 + 1 + 80 + 1);
  EXPECT_EQ(ballast_test::least_makespan(step), 124);
}

TEST(TaskBounds, AreExactWhereMicrobatchesAreAlike)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = ballast_test::random_small_step(random, 12);
    if (step.schedule.microbatches() == 0) { continue; }
    for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
      step.times.rows[at] = step.times.rows[at % step.times.stages];
    }
    bound_parts const parts(step);
    auto const order = numbered_order(step.schedule.microbatches());
    auto const timeline = simulate(step.schedule, step.times, order);
    ASSERT_EQ(std::vector(parts.bounds.heads().begin(), parts.bounds.heads().end()),
              timeline.start);
    ASSERT_EQ(parts.bounds.longest(step.schedule, parts.columns), timeline.makespan);
  }
}

}  // namespace
