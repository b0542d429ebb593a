// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/rank_ends.hpp>  // first: proves it is self-contained

#include "../../../support/bound_cases.hpp"
#include "../../../support/compiled_schedules.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace {

using ballast::time_units;
using ballast::detail::least_of_both;
using ballast::detail::no_position;
using ballast::detail::path_end;
using ballast::detail::rank_ends;
using ballast::detail::rank_tasks;

std::vector<std::size_t> indices(std::span<path_end const> ends)
{
  std::vector<std::size_t> found;
  for (path_end const& end : ends) { found.push_back(end.index); }
  return found;
}

TEST(RankEnds, AreTheEndsOfTheListAndItsTurns)
{
  // F0 F1 B0 F2 B1 F3 B2 B3 on rank 0 of two.
  ballast_test::small_step step{ballast_test::chain_schedule(2, 4), ballast::pipeline_times(4, 2)};
  for (std::size_t at = 0; at < 4; ++at) {
    auto const time = static_cast<time_units>(at + 1);
    step.times.rows[2 * at] = {time, 10 * time};
    step.times.rows[2 * at + 1] = {100 * time, 1000 * time};
  }
  ballast_test::bound_parts parts(step);
  rank_tasks const tasks(step.schedule, ballast::pipeline_rank{0}, parts.scratch);
  rank_ends const ends(tasks, parts.columns, parts.paths, parts.bounds, parts.scratch);
  EXPECT_EQ(indices(ends.heads()), (std::vector<std::size_t>{0, 2, 2}));
  EXPECT_EQ(indices(ends.tails()), (std::vector<std::size_t>{7, 5, 5}));
  EXPECT_EQ(ends.heads()[0].least, 0);
  EXPECT_EQ(ends.heads()[1].position, 0U);
  EXPECT_EQ(ends.heads()[1].own[2], 3300);  // its forward is not beyond: it is counted as work
  EXPECT_EQ(ends.heads()[1].least, 1100);
  EXPECT_EQ(ends.heads()[2].position, no_position);
  EXPECT_EQ(ends.heads()[2].least, 1101);
  EXPECT_EQ(ends.tails()[1].position, 3U);
  EXPECT_EQ(ends.tails()[1].own[3], 4400);
  EXPECT_EQ(ends.tails()[0].least, 0);
}

TEST(RankEnds, AreTwoWhereARankNeverTurns)
{
  auto const stages = ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}}, {}).value();
  auto const tasks = ballast::one_forward_one_backward{}(stages, 3).value();
  ballast_test::small_step const step{ballast::compiled_schedule::make(stages, tasks).value(),
                                      ballast::pipeline_times(3, 1)};
  ballast_test::bound_parts parts(step);
  rank_tasks const of_rank(step.schedule, ballast::pipeline_rank{0}, parts.scratch);
  rank_ends const ends(of_rank, parts.columns, parts.paths, parts.bounds, parts.scratch);
  EXPECT_EQ(indices(ends.heads()), std::vector<std::size_t>{0});
  EXPECT_EQ(indices(ends.tails()), std::vector<std::size_t>{2});
}

TEST(LeastOfBoth, TakesDifferentMicrobatchesAtDifferentPositions)
{
  std::vector<time_units> head{5, 1, 4};
  std::vector<time_units> tail{9, 2, 3};
  path_end const first{0, 0, 1, head};
  EXPECT_EQ(least_of_both(first, {7, 2, 2, tail}), 4);            // 1 + 3, and not 1 + 2
  EXPECT_EQ(least_of_both(first, {7, 0, 2, tail}), 3);            // the same position
  EXPECT_EQ(least_of_both(first, {7, no_position, 2, {}}), 3);    // of no one microbatch
  EXPECT_EQ(least_of_both({0, 0, 6, head}, {7, 2, 2, tail}), 8);  // what is known otherwise
  tail[1] = 20;
  EXPECT_EQ(least_of_both(first, {7, 2, 3, tail}), 4);
}

}  // namespace
