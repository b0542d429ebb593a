// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/rank_tasks.hpp>  // first: proves it is self-contained

#include "../../../support/random_schedules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using ballast::detail::rank_tasks;
using ballast::detail::time_columns;

TEST(RankTasks, CountWhatComesBeforeEveryPlace)  // Ensures (1) (2)
{
  ballast::random_source random(6);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, listed).value();
    ballast::workspace memory;
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      auto scratch = memory.open();
      rank_tasks const tasks(schedule, ballast::to_id<ballast::pipeline_rank>(rank), scratch);
      ASSERT_TRUE(std::ranges::is_sorted(tasks.columns()));
      ASSERT_EQ(tasks.size(), listed.ranks[rank].size());
      ASSERT_EQ(tasks.size(), tasks.kinds() * schedule.microbatches());
      std::vector<std::size_t> seen(tasks.kinds(), 0);
      for (std::size_t index = 0; index < tasks.size(); ++index) {
        for (std::size_t kind = 0; kind < tasks.kinds(); ++kind) {
          ASSERT_EQ(tasks.before(index, kind), seen[kind]);
        }
        auto const& task = tasks[index];
        ASSERT_EQ(task, listed.ranks[rank][index]);
        ASSERT_EQ(tasks.columns()[tasks.kind_of(task)], time_columns::column_of(task));
        ASSERT_EQ(tasks.index_of(tasks.kind_of(task), task.position), index);
        ++seen[tasks.kind_of(task)];
      }
      for (std::size_t kind = 0; kind < tasks.kinds(); ++kind) {
        ASSERT_EQ(tasks.before(tasks.size(), kind), schedule.microbatches());
      }
    }
  }
}

}  // namespace
