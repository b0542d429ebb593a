// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/rank_bound.hpp>  // first: proves it is self-contained

#include "../../../support/bound_cases.hpp"
#include "../../../support/compiled_schedules.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

namespace {

using ballast::time_units;
using ballast::detail::rank_bound;
using ballast::detail::rank_ends;
using ballast::detail::rank_tasks;
using ballast_test::small_step;

/// The bound of one rank, with nothing known before.
time_units rank_bound_of(small_step const& step, std::size_t rank, time_units* whole = nullptr)
{
  ballast_test::bound_parts parts(step);
  rank_tasks const tasks(step.schedule, ballast::to_id<ballast::pipeline_rank>(rank),
                         parts.scratch);
  rank_ends const ends(tasks, parts.columns, parts.paths, parts.bounds, parts.scratch);
  rank_bound along(parts.columns, parts.paths, tasks, ends, parts.scratch);
  if (whole != nullptr) { *whole = along.whole(); }
  return along.bound(0);
}

TEST(RankBound, IsNotAboveAnyOrder)  // Ensures (1)
{
  ballast::random_source random(7);
  for (int trial = 0; trial < ballast_test::trials_of(2500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_small_step(random, 5);
    if (step.schedule.microbatches() == 0) { continue; }
    time_units const least = ballast_test::least_makespan(step);
    for (std::size_t rank = 0; rank < step.schedule.stages().ranks(); ++rank) {
      time_units whole = 0;
      time_units const bound = rank_bound_of(step, rank, &whole);
      ASSERT_LE(bound, least) << "rank " << rank;
      ASSERT_LE(whole, bound) << "rank " << rank;
    }
  }
}

// One long microbatch of eight, on four stages: nothing that the others do fills its window.
TEST(RankBound, SeesThatNothingFillsTheWindowOfALongMicrobatch)
{
  small_step step{ballast_test::chain_schedule(4, 8), ballast::pipeline_times(8, 4)};
  std::ranges::fill(step.times.rows, ballast::stage_time{10, 20});
  std::fill_n(step.times.rows.begin() + 12, 4, ballast::stage_time{100, 200});
  // The work of a rank, 510, and the path of a short microbatch to it and back, 90, are far below.
  EXPECT_EQ(rank_bound_of(step, 0), 1350);
  EXPECT_EQ(ballast_test::least_makespan(step), 1350);
}

TEST(RankBound, KeepsWhatWasFoundBefore)
{
  small_step const step{ballast_test::chain_schedule(2, 3), ballast::pipeline_times(3, 2)};
  ballast_test::bound_parts parts(step);
  rank_tasks const tasks(step.schedule, ballast::pipeline_rank{1}, parts.scratch);
  rank_ends const ends(tasks, parts.columns, parts.paths, parts.bounds, parts.scratch);
  rank_bound along(parts.columns, parts.paths, tasks, ends, parts.scratch);
  EXPECT_EQ(along.bound(0), 0);
  EXPECT_EQ(along.bound(77), 77);
}

}  // namespace
