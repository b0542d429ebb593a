// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/read_schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace {

using ballast::chain_of_stages;
using ballast::compiled_schedule;
using ballast::error_code;
using ballast::one_forward_one_backward;
using ballast::pipeline_rank;
using ballast::read_schedule;
using ballast::stage_id;
using ballast::to_id;
using testing::HasSubstr;

std::string const task_columns = "rank,stage,microbatch,pass\n";

std::string csv_of(compiled_schedule const& schedule)
{
  std::string csv = task_columns;
  for (std::size_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
    for (auto const task : schedule.tasks_on(to_id<pipeline_rank>(rank))) {
      auto const [position, stage, pass] = schedule.tasks()[task];
      csv += std::to_string(rank) + ',' + std::to_string(to_index(stage)) + ',' +
             std::to_string(position) +
             (pass == ballast::pass::forward ? ",forward" : ",backward") + '\n';
    }
  }
  return csv;
}

TEST(ReadSchedule, ReadsBackWhatAPolicyWrote)
{
  auto const schedule =
      compiled_schedule::make(chain_of_stages(4, 4, 7), one_forward_one_backward{}, 6).value();
  EXPECT_EQ(read_schedule(csv_of(schedule), 7).value(), schedule);
}

TEST(ReadSchedule, PutsStagesOnTheRanksOfTheirRows)
{
  auto const schedule = read_schedule(task_columns +
                                          "0,0,0,forward\n0,3,0,forward\n0,3,0,backward\n"
                                          "0,0,0,backward\n1,1,0,forward\n1,2,0,forward\n"
                                          "1,2,0,backward\n1,1,0,backward\n",
                                      5)
                            .value();
  EXPECT_EQ(to_index(schedule.stages()[to_id<stage_id>(3)].rank), 0U);
  EXPECT_EQ(schedule.stages().links()[0].transfer, 5);
  EXPECT_EQ(schedule.stages().links()[1].transfer, 0);  // both on rank 1
}

TEST(ReadSchedule, TakesStagesWithoutBackward)
{
  auto const schedule = read_schedule(task_columns + "0,0,0,forward\n0,0,1,forward\n").value();
  EXPECT_FALSE(schedule.stages()[stage_id{}].backward);
  EXPECT_EQ(schedule.microbatches(), 2U);
}

void expect_refused_schedule(std::string const& rows, error_code code, std::string const& why)
{
  auto const schedule = read_schedule(task_columns + rows);
  ASSERT_FALSE(schedule.has_value()) << rows;
  EXPECT_EQ(schedule.error().code, code);
  EXPECT_THAT(schedule.error().message, HasSubstr(why));
}

TEST(ReadSchedule, SaysWhatItRefuses)
{
  expect_refused_schedule("0,0,0,forward\n0,0,0,sideways\n", error_code::bad_row,
                          "line 3: column 'pass' holds 'sideways', expected forward or backward");
  expect_refused_schedule("0,0,0,forward\n1,0,0,backward\n", error_code::bad_row,
                          "line 3: column 'rank' puts stage 0 on rank 1");
  expect_refused_schedule("", error_code::bad_row, "no row follows the header");
  expect_refused_schedule("0,0,0,backward\n0,0,0,forward\n", error_code::infeasible, "deadlock");
  expect_refused_schedule("0,0,0,forward\n0,0,0,backward\n0,0,1,forward\n", error_code::infeasible,
                          "backward");
}

}  // namespace
