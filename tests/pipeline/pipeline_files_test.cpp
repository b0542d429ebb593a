// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/pipeline_files.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace {

using namespace ballast;
using testing::ElementsAre;
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

std::string const header = "microbatch,stage,forward,backward\n";

void expect_refused(std::string const& csv, std::size_t line, std::string const& why,
                    error_code code = error_code::bad_row)
{
  auto const read = read_pipeline_times(csv);
  ASSERT_FALSE(read.has_value()) << csv;
  EXPECT_EQ(read.error().code, code) << csv;
  EXPECT_EQ(read.error().position, line) << read.error().message;
  EXPECT_THAT(read.error().message, HasSubstr(why));
}

TEST(ReadPipelineTimes, TakesRowsAndColumnsInAnyOrder)
{
  std::string_view const csv =
      "backward,host,stage,microbatch,forward\n"
      "8,a,1,1,4\n"
      "2,b,0,0,1\n"
      "6,a,0,1,3\n"
      "4,b,1,0,2\n";
  auto const read = read_pipeline_times(csv);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->times.stages, 2U);
  EXPECT_EQ(read->times.microbatches(), 2U);
  EXPECT_THAT(read->times.rows,
              ElementsAre(stage_time{1, 2}, stage_time{2, 4}, stage_time{3, 6}, stage_time{4, 8}));
  EXPECT_EQ(read->decimals, 0U);
  EXPECT_EQ(read->transfer, 0);
}

TEST(ReadPipelineTimes, MakesWholeUnitsOfDecimals)  // Ensures (1) (2)
{
  auto const read = read_pipeline_times(header + "0,0,0.5,1.25\n1,0,3,2e-3\n");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->decimals, 3U);
  EXPECT_THAT(read->times.rows, ElementsAre(stage_time{500, 1250}, stage_time{3000, 2}));
  auto const zeros = read_pipeline_times(header + "0,0,5.00,0.0\n");
  EXPECT_EQ(zeros->decimals, 0U);
  EXPECT_THAT(zeros->times.rows, ElementsAre(stage_time{5, 0}));
  auto const fine = read_pipeline_times(header + "0,0,0.1234567894,0.12345678951\n");
  EXPECT_EQ(fine->decimals, 9U);
  EXPECT_THAT(fine->times.rows, ElementsAre(stage_time{123'456'789, 123'456'790}));
}

TEST(ReadPipelineTimes, GivesTheTransferTheUnitOfTheTimes)  // Ensures (2)
{
  auto const finer = read_pipeline_times(header + "0,0,2,4\n", *parse_decimal("0.25"));
  EXPECT_EQ(finer->decimals, 2U);
  EXPECT_EQ(finer->transfer, 25);
  EXPECT_THAT(finer->times.rows, ElementsAre(stage_time{200, 400}));
  auto const coarser = read_pipeline_times(header + "0,0,0.02,4\n", *parse_decimal("3"));
  EXPECT_EQ(coarser->transfer, 300);
}

TEST(ReadPipelineTimes, SaysWhichLineIsWrongAndWhy)
{
  for (std::string const empty : {"", "\r", "\n\n"}) {
    expect_refused(empty, 1, "line 1: there is no header");
  }
  expect_refused("microbatch,stage,forward\n", 1, "line 1: there is no column 'backward'");
  expect_refused("\nmicrobatch,stage,stage,forward,backward\n", 2, "line 2: there are two columns");
  expect_refused(header, 1, "no row follows the header");
  expect_refused(header + "0,0,1\n", 2, "line 2: the number of fields is 3");
  expect_refused(header + "0,0,1,2\n0,1,1,2,3\n", 3, "line 3: the number of fields is 5");
  expect_refused(header + "0,0,1,2\n\n0,\"1,1,2\n", 4, "never closed");
  for (std::string const number : {"", "x", "-1", "0.5", " 0", "4294967296", "1073741824"}) {
    expect_refused(header + number + ",0,1,2\n", 2, "column 'microbatch' holds '" + number + "'");
  }
  expect_refused(header + "0,65536,1,2\n", 2, "a whole number from 0 to 65535");
  expect_refused(header + "0,0,-1,2\n", 2, "line 2: column 'forward': '-1' is no number");
  expect_refused(header + "0,0,1,\n", 2, "line 2: column 'backward': '' is no number");
  expect_refused(header + "0,0,1,2\n1,0,1,fast\n2,0,slow,1\n", 3, "'fast'");  // Ensures (3)
}

TEST(ReadPipelineTimes, RefusesPairsThatAreThereTwiceOrNotAtAll)
{
  expect_refused(header + "0,0,1,2\n0,1,1,2\n1,0,1,2\n1,1,1,2\n0,1,1,2\n1,0,1,2\n", 6,
                 "line 6: microbatch 0 on stage 1 has a row already");
  expect_refused(header + "0,0,1,2\n0,0,1,2\n0,0,1,2\n", 3, "line 3: ");
  expect_refused(header + "1,0,1,2\n", 2, "no row for microbatch 0 on stage 0 up to line 2");
  expect_refused(header + "0,0,1,2\n2,0,1,2\n", 3, "no row for microbatch 1 on stage 0");
  expect_refused(header + "0,0,1,2\n0,1,1,2\n1,0,1,2\n", 4, "no row for microbatch 1 on stage 1");
  expect_refused(header + "1,1,1,2\n0,0,1,2\n1,0,1,2\n", 4, "no row for microbatch 0 on stage 1");
  expect_refused(header + "1073741823,65535,1,2\n", 2, "no row for microbatch 0 on stage 0");
}

TEST(ReadPipelineTimes, RefusesTimesThatAreTooLongInTheUnitOfAll)
{
  auto const whole = read_pipeline_times(header + "0,0,9007199254740992,0\n");
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_EQ(whole->times.rows.front().forward, ballast::stage_graph::longest_time);
  expect_refused(header + "0,0,9007199254740993,0\n", 2, "line 2: a time of 9007199254740993",
                 error_code::out_of_range);
  expect_refused(header + "0,0,0.000000001,9007200\n", 2,
                 "is longer than 9007199.254740992, the longest where one time has 9 decimals",
                 error_code::out_of_range);
  expect_refused(header + "0,0,1,1e30\n", 2, "column 'backward': '1e30' is 2^63 or more");
  auto const transfer = read_pipeline_times(header + "0,0,0,0\n", *parse_decimal("1e16"));
  EXPECT_EQ(transfer.error().code, error_code::out_of_range);
  EXPECT_EQ(transfer.error().position, 0U);
  EXPECT_THAT(transfer.error().message, HasSubstr("a transfer of 10000000000000000 is longer"));
}

RC_GTEST_PROP(ReadPipelineTimes, ReadsWhatIsWrittenInAnyOrder, ())
{
  auto const stages = *rc::gen::inRange<std::size_t>(1, 5);
  auto const microbatches = *rc::gen::inRange<std::size_t>(1, 6);
  auto const decimals = *rc::gen::inRange(0U, decimal::most_decimals + 1);
  pipeline_times times(microbatches, stages);
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < times.rows.size(); ++at) {
    auto const any = rc::gen::inRange<std::int64_t>(0, ballast::stage_graph::longest_time + 1);
    times.rows[at] = {*any, *any};
    rows.push_back(std::to_string(at / stages) + "," + std::to_string(at % stages) + "," +
                   decimal::make(times.rows[at].forward, decimals).text() + "," +
                   decimal::make(times.rows[at].backward, decimals).text() + "\n");
  }
  for (std::size_t at = rows.size(); at > 1; --at) {
    std::swap(rows[at - 1], rows[*rc::gen::inRange<std::size_t>(0, at)]);
  }
  std::string csv = header;
  for (std::string const& row : rows) { csv += row; }
  auto const read = read_pipeline_times(csv);
  RC_ASSERT(read.has_value());
  RC_ASSERT(read->decimals <= decimals);
  RC_ASSERT(read->times.stages == stages);
  for (std::size_t at = 0; at < times.rows.size(); ++at) {
    auto const same = [&](std::int64_t found, std::int64_t written) {
      return decimal::make(found, read->decimals) == decimal::make(written, decimals);
    };
    RC_ASSERT(same(read->times.rows[at].forward, times.rows[at].forward));
    RC_ASSERT(same(read->times.rows[at].backward, times.rows[at].backward));
  }
}

}  // namespace
