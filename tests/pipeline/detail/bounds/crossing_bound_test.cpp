// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/crossing_bound.hpp>  // first: proves it is self-contained

#include "../../../support/bound_cases.hpp"
#include "../../../support/compiled_schedules.hpp"
#include "../../../support/random_times.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

namespace {

using ballast::time_units;
using ballast::detail::crossing_bound;
using ballast_test::chain_schedule;
using ballast_test::gpipe_of;
using ballast_test::small_step;

time_units crossing_bound_of(small_step const& step, time_units found = 0)
{
  ballast_test::bound_parts parts(step);
  return crossing_bound(step.schedule, parts.columns, parts.paths, parts.bounds, parts.scratch)
      .bound(found, parts.memory);
}

TEST(CrossingBound, IsNotAboveAnyOrder)  // Ensures (1)
{
  ballast::random_source random(14);
  for (int trial = 0; trial < ballast_test::trials_of(4000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const microbatches = 1 + random.below(5);
    std::size_t const ranks = 1 + random.below(5);
    auto const transfer = static_cast<time_units>(random.below(3) * random.below(20));
    auto const stages = trial % 2 == 0 ? ballast_test::random_stages(random, true)
                                       : ballast::chain_of_stages(ranks, ranks, transfer);
    auto const one_forward_one_backward =
        ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, microbatches);
    small_step step{
        trial % 3 == 0 ? gpipe_of(stages, microbatches) : one_forward_one_backward.value(),
        ballast_test::random_times(random, microbatches, stages.stages(),
                                   trial % 5 == 0 ? 9 : 1000)};
    for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
      if (trial % 7 < 3 && at % stages.stages() != 0) {  // alike on all stages
        step.times.rows[at] = step.times.rows[at - 1];
      }
    }
    ASSERT_LE(crossing_bound_of(step), ballast_test::least_makespan(step));
  }
}

// Every order of GPipe takes all work once, and the longest microbatch down and up once more.
TEST(CrossingBound, IsExactInGPipeWhereAllStagesAreAlike)
{
  small_step step{gpipe_of(ballast::chain_of_stages(4, 4, 3), 5), ballast::pipeline_times(5, 4)};
  for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
    auto const time = static_cast<time_units>(1 + at / 4);
    step.times.rows[at] = {time, 2 * time};
  }
  EXPECT_EQ(crossing_bound_of(step), 3 * (1 + 2 + 3 + 4 + 5) + 3 * 3 * 5 + 6 * 3);
  EXPECT_EQ(ballast_test::least_makespan(step), crossing_bound_of(step));
}

// Two long microbatches: the backwards of one reach the first stage one after the other, and only
// two forwards of others are not done meanwhile that the last stage has done before.
TEST(CrossingBound, SeesWhatBackwardsHoldUpIn1F1B)
{
  small_step step{chain_schedule(3, 6), ballast::pipeline_times(6, 3)};
  for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
    auto const time = static_cast<time_units>(at / 3 < 2 ? 50 : 10);
    step.times.rows[at] = {time, 2 * time};
  }
  // The path of a short one to the last stage, the work of a rank, two backwards of 100 more, and
  // less the forwards of 50 and 10.
  EXPECT_EQ(crossing_bound_of(step), 2 * 10 + 420 + 2 * 100 - 50 - 10);
  EXPECT_EQ(ballast_test::least_makespan(step), 660);
}

TEST(CrossingBound, KeepsWhatWasFoundBefore)
{
  small_step const step{chain_schedule(3, 4), ballast::pipeline_times(4, 3)};
  EXPECT_EQ(crossing_bound_of(step, 5), 5);
  small_step long_one{chain_schedule(65, 1), ballast::pipeline_times(1, 65)};
  std::ranges::fill(long_one.times.rows, ballast::stage_time{1, 1});
  EXPECT_EQ(crossing_bound_of(long_one, 5), 5);
}

}  // namespace
