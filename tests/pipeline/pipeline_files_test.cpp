// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/pipeline_files.hpp>  // first: proves it is self-contained

#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/plan_schedule.hpp>
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
             (pass == ballast::pass::forward    ? ",forward"
              : pass == ballast::pass::backward ? ",backward"
                                                : ",weights") +
             '\n';
    }
  }
  return csv;
}

TEST(ReadSchedule, ReadsBackWhatAPolicyWrote)
{
  auto const schedule =
      compiled_schedule::make(chain_of_stages(4, 4, 7), one_forward_one_backward{}, 6).value();
  EXPECT_EQ(read_schedule(csv_of(schedule), 7).value().schedule, schedule);
}

TEST(ReadSchedule, PutsStagesOnTheRanksOfTheirRows)
{
  auto const schedule = read_schedule(task_columns +
                                          "0,0,0,forward\n0,3,0,forward\n0,3,0,backward\n"
                                          "0,0,0,backward\n1,1,0,forward\n1,2,0,forward\n"
                                          "1,2,0,backward\n1,1,0,backward\n",
                                      5)
                            .value()
                            .schedule;
  EXPECT_EQ(to_index(schedule.stages()[to_id<stage_id>(3)].rank), 0U);
  EXPECT_EQ(schedule.stages().links()[0].transfer, 5);
  EXPECT_EQ(schedule.stages().links()[1].transfer, 0);  // both on rank 1
}

TEST(ReadSchedule, TakesStagesWithoutBackward)
{
  auto const schedule =
      read_schedule(task_columns + "0,0,0,forward\n0,0,1,forward\n").value().schedule;
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
  expect_refused_schedule(
      "0,0,0,forward\n0,0,0,sideways\n", error_code::bad_row,
      "line 3: column 'pass' holds 'sideways', expected forward, backward or weights");
  expect_refused_schedule("0,0,0,forward\n1,0,0,backward\n", error_code::bad_row,
                          "line 3: column 'rank' puts stage 0 on rank 1");
  expect_refused_schedule("", error_code::bad_row, "no row follows the header");
  expect_refused_schedule("0,0,0,backward\n0,0,0,forward\n", error_code::infeasible, "deadlock");
  expect_refused_schedule("0,0,0,forward\n0,0,0,backward\n0,0,1,forward\n", error_code::infeasible,
                          "backward");
}

// The stages of a V on two ranks, in cells: three microbatches, some backwards whole.
std::string const two_ranks =
    "0F0,0F1,3F0,,3B0, 0I0 "
    ",3F1,0W0,3I1,3W1,0I1,0W1\n,1F0,2F0,1F1,2F1,2I0,1I0,2W0,1W0,2I1,2W1,1B1\n";

TEST(ReadSchedule, ReadsCells)
{
  auto const written = read_schedule(two_ranks, 5).value();
  EXPECT_EQ(written.skipped, 0U);
  EXPECT_EQ(written.overlapped, 0U);
  auto const& stages = written.schedule.stages();
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(to_index(stages[stage_id{stage}].rank), stage == 0 || stage == 3 ? 0U : 1U);
    EXPECT_TRUE(stages[stage_id{stage}].weights);
  }
  EXPECT_EQ(stages.links()[0].transfer, 5);
  EXPECT_EQ(stages.links()[1].transfer, 0);  // both on rank 1
  // Each whole backward on a stage that splits others is both of its parts.
  std::vector<std::string> tasks;
  for (std::uint32_t const number : written.schedule.tasks_on(pipeline_rank{0})) {
    auto const& [position, stage, direction] = written.schedule.tasks()[number];
    tasks.push_back(std::to_string(to_index(stage)) + "FIW"[static_cast<std::size_t>(direction)] +
                    std::to_string(position));
  }
  EXPECT_THAT(tasks, ElementsAre("0F0", "0F1", "3F0", "3I0", "3W0", "0I0", "3F1", "0W0", "3I1",
                                 "3W1", "0I1", "0W1"));
}

TEST(ReadSchedule, SkipsWhatOnlyCommunicatesAndReadsPairs)
{
  auto const plain = read_schedule("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").value();
  auto const lowered =
      read_schedule(
          "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,"
          "0RESHARD,0REDUCE_GRAD\r\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n")
          .value();
  EXPECT_EQ(lowered.schedule, plain.schedule);
  EXPECT_EQ(lowered.skipped, 11U);
  auto const paired = read_schedule("0F0,0F1,0B0,0B1\n1F0,1B0,(1F1;1B1)OVERLAP_F_B\n").value();
  EXPECT_EQ(paired.schedule, plain.schedule);
  EXPECT_EQ(paired.overlapped, 1U);
  EXPECT_EQ(read_schedule("0F0,0F1,0B0,0B1\n1F0,1B0,1(1F1; 1B1)OVERLAP_F_B\n").value().schedule,
            plain.schedule);
}

TEST(ReadSchedule, NamesTheCellThatItRefuses)
{
  auto const refuse = [](std::string const& csv, error_code code, std::string const& why) {
    auto const schedule = read_schedule(csv);
    ASSERT_FALSE(schedule.has_value()) << csv;
    EXPECT_EQ(schedule.error().code, code);
    EXPECT_THAT(schedule.error().message, HasSubstr(why));
  };
  for (std::string const cell :
       {"0X0", "0F", "F0", "0F0x", "0f0", "0F-1", "0OVERLAP_F_B0", "(0F0)OVERLAP_F_B",
        "(0F0;0B0;0W0)OVERLAP_F_B", "(0F0;0B0)", "(0F0;0SEND_F0)OVERLAP_F_B", "(0F0;0B0", "65536F0",
        "0F1073741824", "0SEND_F0 0F1"}) {
    refuse("0F0,0B0\n1F0, " + cell + "\n", error_code::bad_row,
           "line 2: cell 1 of rank 1 holds '" + cell + "', expected a stage, one of F");
  }
  refuse("0F0,0B0\n0F1\n", error_code::bad_row,
         "line 2: cell 0 of rank 1 holds '0F1' and a row above has stage 0 on rank 0");
  refuse("0F0,0F0,0B0\n", error_code::infeasible,
         "pipeline rank 0 does forward 0 on stage 0 twice");
  refuse("0F0,0I0,0W0,0F1,0I1\n", error_code::infeasible, "never does weights pass 1 on stage 0");
  refuse("0F0,0I0\n", error_code::infeasible, "never does weights pass 0 on stage 0");
  refuse("0F0,0W0\n", error_code::infeasible, "never does backward 0 on stage 0");
  refuse("0F0,0B0\n1F0,1B0\n2B0,2F0\n", error_code::infeasible, "the schedule deadlocks");
  refuse("0F0,0W0,0I0\n", error_code::infeasible,
         "weights pass 0 on stage 0 waits for backward 0 on stage 0");
  refuse("0F0,0B0\n,\n", error_code::infeasible, "the schedule is for 2 pipeline ranks");
}

TEST(ScheduleCells, AreReadBack)
{
  EXPECT_EQ(schedule_cells(compiled_schedule(chain_of_stages(2, 2), one_forward_one_backward{}, 2),
                           std::array{microbatch_id{1}, microbatch_id{0}})
                .value(),
            "0F1,0F0,0B1,0B0\n1F1,1B1,1F0,1B0\n");
  auto const schedule = read_schedule(two_ranks, 5).value().schedule;
  auto const cells =
      schedule_cells(schedule, std::array{microbatch_id{0}, microbatch_id{1}}).value();
  EXPECT_EQ(read_schedule(cells, 5).value().schedule, schedule);
  EXPECT_EQ(read_schedule(csv_of(schedule), 5).value().schedule, schedule);

  auto const joined = joined_stages({.encoders = {{1}, {1}}, .llm = {1}}).value();
  auto const refused =
      schedule_cells(compiled_schedule(joined, gpipe{}, 1), std::array{microbatch_id{0}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, error_code::infeasible);
  EXPECT_EQ(refused.error().message,
            "stage 0 feeds 1 stage and not the next one alone; cells are of a chain of stages");
}

TEST(ScheduleCells, TakeAsLongAsWhatWasPlanned)
{
  random_source random(64);
  for (int trial = 0; trial < 40; ++trial) {
    std::size_t const ranks = 1 + random.below(4);
    auto const whole = chain_of_stages(ranks * (1 + random.below(2)), ranks, 2);
    std::vector<pipeline_stage> stages;
    for (std::uint32_t stage = 0; stage < whole.stages(); ++stage) {
      stages.push_back(whole[stage_id{stage}]);
      stages.back().weights = random.below(3) > 0;
    }
    stage_graph const graph(stages, {whole.links().begin(), whole.links().end()});
    pipeline_times times(1 + random.below(6), stages.size(), [&](auto, auto) {
      return stage_time{random.between(1, 9), random.between(1, 9)};
    });
    for (std::size_t row = 0; row < times.rows.size(); ++row) {
      times.weights.push_back(stages[row % stages.size()].weights ? random.between(1, 9) : 0);
    }
    pipeline_memory const memory{std::vector(times.rows.size(), held_bytes{1, 1}), {}};
    auto const planned = plan_schedule(graph, times, memory, {.steps = 20'000}).value();
    auto const cells =
        schedule_cells(compiled_schedule(graph, planned.schedule), planned.order).value();
    auto const read = read_schedule(cells, 2).value();
    EXPECT_EQ(read.schedule.stages(), graph);
    std::vector<microbatch_id> numbered = planned.order;
    std::ranges::sort(numbered);
    EXPECT_EQ(simulate(read.schedule, times, numbered).makespan, planned.makespan);
  }
}

TEST(WholeBackwards, TakeAsLongAsBothOfTheirParts)
{
  pipeline_times times(1, 2, [](auto, auto) { return stage_time{1, 2}; });
  times.weights = {3, 4};
  std::vector<pipeline_stage> stages(2);
  stages[1].weights = true;
  auto const whole = whole_backwards(times, stage_graph(stages, {{stage_id{0}, stage_id{1}}}));
  EXPECT_EQ(whole.rows, (std::vector<stage_time>{{1, 5}, {1, 2}}));
  EXPECT_EQ(whole.weights, (std::vector<time_units>{0, 4}));
}

std::string const header = "microbatch,stage,forward,backward\n";

void expect_refused(std::string const& csv, std::size_t line, std::string const& why,
                    error_code code = error_code::bad_row)
{
  ballast_test::expect_refused(read_pipeline_times(csv), code, line, why);
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

TEST(ReadPipelineTimes, ReadsTheThirdPassAndBytes)
{
  auto const whole = read_pipeline_times(header + "0,0,1,2\n").value();
  EXPECT_THAT(whole.times.weights, ElementsAre());
  EXPECT_THAT(whole.held, ElementsAre(held_bytes{1, 1}));
  std::string const wide = "held,microbatch,stage,weights,forward,backward";
  auto const in_full = read_pipeline_times(wide + "\n7,0,1,0.25,1,2\n5,0,0,0,1,2\n").value();
  EXPECT_EQ(in_full.decimals, 2U);
  EXPECT_THAT(in_full.times.weights, ElementsAre(0, 25));
  EXPECT_THAT(in_full.held, ElementsAre(held_bytes{5, 5}, held_bytes{7, 7}));
  auto const parts = read_pipeline_times(wide + ",held_for_weights\n7,0,0,0,1,2,3\n").value();
  EXPECT_THAT(parts.times.weights, ElementsAre());  // no stage has a third pass
  EXPECT_THAT(parts.held, ElementsAre(held_bytes{7, 3}));
  auto const refuse = [&](std::string const& row, std::string const& why) {
    auto const read = read_pipeline_times(wide + ",held_for_weights\n" + row);
    ASSERT_FALSE(read.has_value()) << row;
    EXPECT_EQ(read.error().code, error_code::bad_row);
    EXPECT_THAT(read.error().message, HasSubstr(why));
  };
  refuse("7,0,0,0,1,2,8\n", "line 2: a microbatch keeps 7 bytes and 8 of them for weights");
  refuse("7,0,0,x,1,2,1\n", "column 'weights'");
  refuse("7.5,0,0,0,1,2,1\n", "column 'held' holds '7.5'");
  refuse("4611686018427387904,0,0,0,1,2,1\n1,0,1,0,1,2,1\n", "with which all are above 2^62");
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
