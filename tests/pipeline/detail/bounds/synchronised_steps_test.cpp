// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/synchronised_steps.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/gpipe.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::pipeline_rank;
using ballast::detail::synchronised_steps;

synchronised_steps steps_of(ballast::compiled_schedule const& schedule, pipeline_rank first,
                            pipeline_rank second)
{
  std::vector<std::uint32_t> index(schedule.tasks().size());
  for (std::size_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
    std::uint32_t next = 0;
    for (auto const task : schedule.tasks_on(ballast::to_id<pipeline_rank>(rank))) {
      index[task] = next++;
    }
  }
  ballast::workspace memory;
  return synchronised_steps(schedule, first, second, index, memory);
}

TEST(SynchronisedSteps, AreOnePerMicrobatchBetweenNeighboursIn1F1B)
{
  auto const schedule = ballast_test::chain_schedule(4, 12);
  for (std::uint32_t rank = 0; rank + 1 < 4; ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    auto const steps = steps_of(schedule, pipeline_rank{rank}, pipeline_rank{rank + 1});
    // From the first backward of the lower rank to the last forward of it.
    EXPECT_EQ(steps.count(), 12 - (4 - rank));
    auto const& [lower, upper] = steps.sides();
    EXPECT_EQ(lower.tasks, 2U);
    EXPECT_EQ(lower.columns, (std::array<std::size_t, 2>{2 * rank + 1, 2 * rank}));
    EXPECT_FALSE(lower.one_microbatch);
    EXPECT_EQ(upper.columns, (std::array<std::size_t, 2>{2 * rank + 2, 2 * rank + 3}));
    EXPECT_EQ(upper.one_microbatch, rank == 2);  // the last rank turns each around
    // Seen from the other rank they are the same.
    auto const mirrored = steps_of(schedule, pipeline_rank{rank + 1}, pipeline_rank{rank});
    EXPECT_EQ(mirrored.count(), steps.count());
    EXPECT_EQ(mirrored.sides()[0], upper);
    EXPECT_EQ(mirrored.sides()[1], lower);
  }
}

TEST(SynchronisedSteps, AreNoneWhereRanksDoNotWaitForEachOther)
{
  EXPECT_EQ(
      steps_of(ballast_test::chain_schedule(4, 12), pipeline_rank{0}, pipeline_rank{2}).count(),
      0U);
  auto const stages = ballast::chain_of_stages(3, 3);
  auto const phases = ballast::compiled_schedule::make(stages, ballast::gpipe{}, 6).value();
  EXPECT_EQ(steps_of(phases, pipeline_rank{0}, pipeline_rank{1}).count(), 0U);
  for (std::size_t const microbatches : {0U, 1U, 2U}) {
    auto const schedule = ballast_test::chain_schedule(2, microbatches);
    EXPECT_EQ(steps_of(schedule, pipeline_rank{0}, pipeline_rank{1}).count(), 0U);
  }
}

}  // namespace
