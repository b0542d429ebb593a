// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/round_trip_bound.hpp>  // first: proves it is self-contained

#include "../../../support/bound_cases.hpp"
#include "../../../support/compiled_schedules.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/gpipe.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using ballast::time_units;
using ballast::detail::rank_tasks;
using ballast::detail::round_trip_bound;
using ballast::detail::window_of;
using ballast_test::bound_parts;
using ballast_test::small_step;

time_units round_trip_bound_of(small_step const& step, ballast::stage_id stage)
{
  bound_parts parts(step);
  auto const rank = step.schedule.stages()[stage].rank;
  rank_tasks const tasks(step.schedule, rank, parts.scratch);
  return round_trip_bound(parts.columns, parts.paths, parts.bounds, tasks, stage, parts.memory);
}

TEST(WindowOf, IsWhatAStageKeepsInMemory)
{
  auto const schedule = ballast_test::chain_schedule(4, 9);
  ballast::workspace memory;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    auto scratch = memory.open();
    rank_tasks const tasks(schedule, ballast::to_id<ballast::pipeline_rank>(rank), scratch);
    EXPECT_EQ(window_of(tasks, 0, 1, 9), 4 - rank);
  }
}

TEST(WindowOf, IsAllMicrobatchesWhereNoForwardWaits)
{
  auto const stages = ballast::chain_of_stages(2, 2);
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const phases = ballast::compiled_schedule::make(stages, ballast::gpipe{}, 5).value();
  EXPECT_EQ(window_of(rank_tasks(phases, ballast::pipeline_rank{0}, scratch), 0, 1, 5), 5U);
  // Backwards in reverse.
  using enum ballast::pass;
  auto const one = ballast::chain_of_stages(1, 1);
  ballast::stage_id const stage{0};
  auto const reversed = ballast::compiled_schedule::make(one, {2,
                                                               {{{0, stage, forward},
                                                                 {1, stage, forward},
                                                                 {1, stage, backward},
                                                                 {0, stage, backward}}}})
                            .value();
  EXPECT_EQ(window_of(rank_tasks(reversed, ballast::pipeline_rank{0}, scratch), 0, 1, 2), 2U);
}

TEST(RoundTripBound, IsNotAboveAnyOrder)  // Ensures (1)
{
  ballast::random_source random(8);
  for (int trial = 0; trial < ballast_test::trials_of(2500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_small_step(random, 5);
    if (step.schedule.microbatches() == 0) { continue; }
    time_units const least = ballast_test::least_makespan(step);
    auto const& stages = step.schedule.stages();
    for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
      auto const id = ballast::to_id<ballast::stage_id>(stage);
      if (stages[id].backward) { ASSERT_LE(round_trip_bound_of(step, id), least); }
    }
  }
}

// Two stages far from each other: a round trip from the first takes 30 + 2 x 100 + 30. The first
// keeps two microbatches in memory, so that six of them make two chains of three such trips. One
// chain begins 10 later, and the other ends 30 before everything does.
TEST(RoundTripBound, CountsTransfersOnceForEveryTrip)
{
  small_step step{ballast_test::chain_schedule(2, 6, 1, 100), ballast::pipeline_times(6, 2)};
  std::ranges::fill(step.times.rows, ballast::stage_time{10, 20});
  EXPECT_EQ(round_trip_bound_of(step, ballast::stage_id{0}), 3 * 260 + (10 + 30) / 2);
  EXPECT_EQ(ballast_test::least_makespan(step), 3 * 260 + 30);
}

}  // namespace
