// Runs `ballast pipeline` as a user does, and compares what it says with the library.

#include "../support/pipeline_families.hpp"
#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using ballast_test::content_of;
using ballast_test::expect_refused;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string csv_of(ballast::pipeline_times const& times)
{
  std::string csv = "microbatch,stage,forward,backward\n";
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    csv += std::to_string(row / times.stages) + "," + std::to_string(row % times.stages) + "," +
           std::to_string(times.rows[row].forward) + "," +
           std::to_string(times.rows[row].backward) + "\n";
  }
  return csv;
}

class BallastPipeline : public ballast_test::program_test {
 protected:
  json pipeline(std::string const& arguments) const { return json_of("pipeline " + arguments); }

  // The first microbatch is long on the first stage and the other on the second: 13 units as given
  // and 8 the other way round.
  std::string crossed(std::string const& unit = "") const
  {
    return file("crossed.csv", "microbatch,stage,forward,backward\n0,0,6" + unit + ",0\n1,0,1" +
                                   unit + ",0\n1,1,6" + unit + ",0\n0,1,1" + unit + ",0\n");
  }

  template <class Schedule, class Policy>
  void expect_as_library(std::string const& options, ballast::pipeline_times const& times,
                         ballast::stage_graph const& stages, Schedule const& schedule,
                         Policy const& policy) const
  {
    auto const compiled =
        ballast::compiled_schedule::make(stages, schedule, times.microbatches()).value();
    auto const plan = ballast::order_microbatches(compiled, times, policy).value();
    json const said = pipeline("--durations " + file("times.csv", csv_of(times)) + options);
    EXPECT_EQ(said.at("stages"), times.stages);
    EXPECT_EQ(said.at("ranks"), stages.ranks());
    EXPECT_EQ(said.at("microbatches"), times.microbatches());
    EXPECT_EQ(said.at("makespan"), plan.makespan) << options;
    EXPECT_EQ(said.at("makespan_given"), plan.makespan_given) << options;
    EXPECT_EQ(said.at("lower_bound"), plan.lower_bound) << options;
    EXPECT_DOUBLE_EQ(said.at("gap"), plan.gap());
    EXPECT_EQ(said.at("proven"), plan.proven_optimal());
    EXPECT_EQ(said.at("digest"), plan.digest());
    EXPECT_DOUBLE_EQ(said.at("idle_share"),
                     ballast::simulate(compiled, times, plan.order).idle_share());
    ASSERT_EQ(said.at("order").size(), plan.order.size());
    std::vector<ballast::microbatch_id> numbered(plan.order.size());
    for (std::size_t at = 0; at < plan.order.size(); ++at) {
      EXPECT_EQ(said.at("order")[at], to_index(plan.order[at])) << options;
      numbered[at] = ballast::to_id<ballast::microbatch_id>(at);
    }
    EXPECT_DOUBLE_EQ(said.at("idle_share_given"),
                     ballast::simulate(compiled, times, numbered).idle_share());
    EXPECT_GT(said.at("millis"), 0.0);
  }
};

TEST_F(BallastPipeline, SaysHowGoodTheOrderIs)
{
  json const said = pipeline("--durations " + crossed() + " --order exact");
  EXPECT_EQ(said.at("stages"), 2);
  EXPECT_EQ(said.at("microbatches"), 2);
  EXPECT_EQ(said.at("makespan"), 8);
  EXPECT_EQ(said.at("makespan_given"), 13);
  EXPECT_EQ(said.at("lower_bound"), 8);
  EXPECT_EQ(said.at("gap"), 0.0);
  EXPECT_EQ(said.at("proven"), true);
  EXPECT_EQ(said.at("gave_up"), false);
  EXPECT_DOUBLE_EQ(said.at("idle_share"), 2.0 / 16);
  EXPECT_DOUBLE_EQ(said.at("idle_share_given"), 12.0 / 26);
  EXPECT_EQ(said.at("order"), (std::vector{1, 0}));
  EXPECT_EQ(said.at("activations_kept"), (std::vector{2, 1}));
  EXPECT_EQ(said.at("schedule"), "1f1b");
  EXPECT_EQ(said.at("policy"), "exact");
  EXPECT_EQ(said.at("transfer"), 0);
}

TEST_F(BallastPipeline, SaysThatExactGaveUpAndIsNotAboveTheDefault)
{
  std::string const times = "--durations " BALLAST_SOURCE_DIR "/examples/pipeline_times.csv";
  json const exact = pipeline(times + " --order exact:nodes=1000");
  EXPECT_LE(exact.at("makespan").get<double>(), pipeline(times).at("makespan").get<double>());
  EXPECT_EQ(exact.at("gave_up"), true);
  EXPECT_THAT(run("pipeline " + times + " --order exact:nodes=1000").out,
              HasSubstr(", and exact gave up: a shorter order may exist\n"));
}

TEST_F(BallastPipeline, OrdersAsTheLibraryDoes)
{
  for (auto const family :
       {ballast_test::time_family::encoder_and_llm, ballast_test::time_family::proportional}) {
    auto const times = ballast_test::times_of(family, 8, 4, 20240607);
    auto const one_each = ballast::chain_of_stages(4, 4);
    ballast::one_forward_one_backward const one_by_one;
    expect_as_library(" --order given", times, one_each, one_by_one, ballast::given_order{});
    expect_as_library(" --order ascending --schedule 1f1b", times, one_each, one_by_one,
                      ballast::ascending_order{});
    expect_as_library(" --order interval", times, one_each, one_by_one,
                      ballast::interval_filling{});
    expect_as_library(" --order insertion --schedule gpipe", times, one_each, ballast::gpipe{},
                      ballast::insertion{});
    expect_as_library(" --order exact", times, one_each, one_by_one,
                      ballast::exact_order<ballast::local_search<>>{});
    expect_as_library("", times, one_each, one_by_one, ballast::local_search{});
    ballast::local_search const few{ballast::insertion{}, 64, 7};
    expect_as_library(" --order search --evaluations 64 --seed 7", times, one_each, one_by_one,
                      few);
    expect_as_library(" --order search:evaluations=64,seed=7", times, one_each, one_by_one, few);
    expect_as_library(" --order insertion --schedule interleaved:v=2 --transfer 250", times,
                      ballast::chain_of_stages(4, 2, 250),
                      ballast::interleaved_one_forward_one_backward{}, ballast::insertion{});
  }
}

TEST_F(BallastPipeline, CountsInTheUnitOfTheFile)
{
  json const decimal = pipeline("--durations " + crossed(".25") + " --transfer 0.125");
  EXPECT_EQ(decimal.at("makespan"), 1.25 + 0.125 + 6.25 + 1.25 + 0.125);
  EXPECT_EQ(decimal.at("makespan_given"), 6.25 + 0.125 + 1.25 + 6.25 + 0.125);
  EXPECT_EQ(decimal.at("transfer"), 0.125);
  auto const result = run("pipeline --durations " + crossed("e-9") + " --format json");
  EXPECT_THAT(result.out, HasSubstr("\"makespan\": 8e-09,"));
  json const whole = pipeline("--durations " + crossed(".00"));
  EXPECT_TRUE(whole.at("makespan").is_number_integer());
}

TEST_F(BallastPipeline, PrintsATable)
{
  auto const result = run("pipeline --order exact --durations " + crossed(".50"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out,
              testing::MatchesRegex(
                  "\n[^\n]*crossed.csv\n"
                  "2 microbatches on 2 stages of 2 pipeline ranks, transfer 0, times in the "
                  "unit of the file\n"
                  "schedule 1f1b, order exact\n\n"
                  " +makespan +idle +above bound\n"
                  "given +14.5 +44.8 % +52.63 %\n"
                  "ordered +9.5 +15.8 % +0.00 %\n"
                  "bound +9.5\n\n"
                  "found in [^\n]*, and no order is shorter\norder 1 0\n\n"
                  "rank +busy +idle given +ordered +activations\n"
                  "0 +8.0 +44.8 % +15.8 % +2\n"
                  "1 +8.0 +44.8 % +15.8 % +1\n\n"));
}

TEST_F(BallastPipeline, WritesAPageThatNeedsNothingElse)
{
  auto const result =
      run("pipeline --durations " + crossed() + " --seed 3 --report " + path("page.html"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("page     " + path("page.html")));
  std::string const page = content_of(path("page.html"));
  EXPECT_THAT(page,
              AllOf(HasSubstr("<svg"), HasSubstr("crossed.csv on 2 pipeline ranks"),
                    HasSubstr("Pipeline timeline"), HasSubstr("makes the step 38"),
                    HasSubstr("backward of microbatch 1"), HasSubstr("<dd>1 0</dd>"),
                    HasSubstr("<dt>Seed</dt><dd>3</dd>"), HasSubstr("prefers-color-scheme: dark")));
  EXPECT_THAT(page, Not(testing::AnyOf(HasSubstr("src="), HasSubstr("<link"), HasSubstr("@import"),
                                       HasSubstr("<script"))));
}

TEST_F(BallastPipeline, WritesATimelineOfBothOrdersWithATrackPerRank)
{
  ASSERT_EQ(
      run("pipeline --durations " + crossed(".5") + " --timeline " + path("t.json")).exit_code, 0);
  json const events = json::parse(content_of(path("t.json"))).at("traceEvents");
  std::map<std::pair<int, int>, std::vector<std::string>> tracks;
  std::map<int, double> ends;
  std::vector<std::string> names;
  for (json const& event : events) {
    if (event.at("name") == "process_name") { names.push_back(event.at("args").at("name")); }
    if (event.at("ph") != "X") { continue; }
    int const process = event.at("pid");
    tracks[{process, event.at("tid")}].push_back(event.at("name"));
    double const end = event.at("ts").get<double>() + event.at("dur").get<double>();
    ends[process] = std::max(ends[process], end);
    EXPECT_EQ(event.at("args").at("stage"), event.at("tid"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"given", "ordered"}));
  ASSERT_EQ(tracks.size(), 4U);
  EXPECT_EQ((tracks[{0, 0}]), (std::vector<std::string>{"F 0", "F 1", "B 0", "B 1"}));
  EXPECT_THAT((tracks[{1, 1}]), testing::UnorderedElementsAre("F 1", "B 1", "F 0", "B 0"));
  EXPECT_DOUBLE_EQ(ends[0], 14.5e3);  // microseconds, where the file's unit is a millisecond
  EXPECT_DOUBLE_EQ(ends[1], 9.5e3);
}

TEST_F(BallastPipeline, RoundsATimelineOfVeryFineTimesToNanoseconds)
{
  auto const times = file("fine.csv",
                          "microbatch,stage,forward,backward\n"
                          "0,0,0.000000499,0.000001001\n0,1,0.000001,0\n");
  ASSERT_EQ(run("pipeline --durations " + times + " --timeline " + path("t.json")).exit_code, 0);
  EXPECT_THAT(content_of(path("t.json")),
              AllOf(HasSubstr(R"("ts":0.000,"dur":0.000)"), HasSubstr(R"("ts":0.000,"dur":0.001)"),
                    HasSubstr(R"("ts":0.001,"dur":0.002)")));
}

TEST_F(BallastPipeline, WritesAllOfItsFilesOrNone)
{
  expect_refused(run("pipeline --durations " + crossed() + " --report " + path("page.html") +
                     " --timeline /no/such/folder/t.json"),
                 1, "/no/such/folder/t.json");
  auto const long_times = file("long.csv",
                               "microbatch,stage,forward,backward\n"
                               "0,0,9007199254740992,9007199254740992\n");
  expect_refused(run("pipeline --durations " + long_times + " --report " + path("page.html") +
                     " --timeline " + path("t.json")),
                 1, "longer than a timeline can hold");
  EXPECT_THAT(names(), testing::ElementsAre("crossed.csv", "long.csv"));
}

TEST_F(BallastPipeline, OrdersWhatHardlyNeedsIt)
{
  std::string const header = "microbatch,stage,forward,backward\n";
  for (std::string const rows : {"0,0,5,7\n", "0,0,0,0\n", "0,0,0,0\n1,0,0,0\n",
                                 "0,0,1,2\n0,1,1,2\n0,2,1,2\n", "0,0,3,6\n1,0,3,6\n2,0,3,6\n"}) {
    for (std::string const order :
         {"given", "ascending", "interval", "insertion", "search", "exact"}) {
      for (std::string const schedule : {"1f1b", "gpipe", "interleaved:v=1"}) {
        json const said = pipeline("--durations " + file("t.csv", header + rows) + " --order " +
                                   order + " --schedule " + schedule + " --report " +
                                   path("page.html") + " --timeline " + path("t.json"));
        EXPECT_EQ(said.at("makespan"), said.at("makespan_given")) << rows << order << schedule;
        EXPECT_EQ(said.at("proven"), true) << rows << order << schedule;
      }
    }
  }
}

TEST_F(BallastPipeline, OrdersTheExampleOfTheRepository)
{
  std::string const times = BALLAST_SOURCE_DIR "/examples/pipeline_times.csv";
  json const said = pipeline("--durations " + times);
  EXPECT_EQ(said.at("stages"), 8);
  EXPECT_EQ(said.at("microbatches"), 12);
  EXPECT_LT(said.at("makespan"), 0.9 * said.at("makespan_given").get<double>());
}

TEST_F(BallastPipeline, AnswersTwoWhenTheCommandLineIsWrong)
{
  auto const times = "pipeline --durations " + crossed();
  expect_refused(run("pipeline"), 2, "--durations is required; see ballast pipeline --help");
  expect_refused(run("pipeline --durations ''"), 2, "--durations: the path is empty");
  expect_refused(
      run(times + " --schedule zigzag"), 2,
      "--schedule: at offset 0 of 'zigzag': there is no schedule 'zigzag'; choose one of gpipe");
  expect_refused(run(times + " --schedule interleaved"), 2, "--schedule: at offset 11 of");
  expect_refused(run(times + " --schedule interleaved:v=3"), 2,
                 "--schedule interleaved:v=3: every rank has 3 virtual stages, and the 2 of ");
  expect_refused(
      run(times + " --order magic"), 2,
      "--order: at offset 0 of 'magic': there is no order policy 'magic'; choose one of given");
  expect_refused(run(times + " --order given --evaluations 9"), 2,
                 "--evaluations is for --order search, and the order is given");
  expect_refused(run(times + " --order exact --seed 9"), 2, "--seed is for --order search");
  expect_refused(run(times + " --order search:evaluations=9 --seed 7"), 2,
                 "--order search:evaluations=9 has its parameters already; write seed=S there too");
  expect_refused(run(times + " --evaluations 1e3"), 2, "'1e3' is no whole number");
  expect_refused(run(times + " --transfer -1"), 2, "--transfer: '-1' is no number of 0 or more");
  expect_refused(run(times + " --format yaml"), 2, "--format");
  expect_refused(run(times + " --gpus 8"), 2, "see ballast pipeline --help");
  expect_refused(run(times + " --report x --timeline x"), 2, "the same file");
  expect_refused(run(times + " --report " + path("crossed.csv")), 2, "the same file");
  EXPECT_THAT(content_of(path("crossed.csv")), HasSubstr("0,0,6,0"));
}

TEST_F(BallastPipeline, AnswersOneWhenTheDataAreWrong)
{
  std::string const header = "microbatch,stage,forward,backward\n";
  auto const refused = [&](std::string const& content, std::string const& why) {
    expect_refused(run("pipeline --durations " + file("t.csv", content)), 1, why);
  };
  expect_refused(run("pipeline --durations /no/such/file.csv"), 1, "/no/such/file.csv");
  refused("", "t.csv: line 1: there is no header");
  refused("microbatch,stage,forward\n0,0,1\n", "t.csv: line 1: there is no column 'backward'");
  refused(header + "0,0,1,2\n0,1,1,x\n", "t.csv: line 3: column 'backward': 'x' is no number");
  refused(header + "0,0,1,2\n0,0,1,2\n", "t.csv: line 3: microbatch 0 on stage 0 has a row");
  refused(header + "0,0,1,2\n1,1,1,2\n", "t.csv: there is no row for microbatch 0 on stage 1");
  refused(header + "0,0,1,9007199254740993\n", "t.csv: line 2: a time of 9007199254740993");
  std::string many = header;
  for (int microbatch = 0; microbatch < 260; ++microbatch) {
    many += std::to_string(microbatch) + ",0,9007199254740992,9007199254740992\n";
  }
  refused(many, " takes 9007199254740992 forward and 9007199254740992 backward on stage 0");
  expect_refused(run("pipeline --transfer 1e16 --durations " + crossed()), 1,
                 "crossed.csv: a transfer of 10000000000000000 is longer");
}

TEST_F(BallastPipeline, TakesAScheduleOfYourOwn)
{
  std::string const columns = "rank,stage,microbatch,pass\n";
  std::string const job = "pipeline --order given --durations " + crossed() + " --schedule ";
  ASSERT_EQ(run(job + "1f1b --plan " + path("1f1b.csv")).exit_code, 0);
  json named = pipeline("--durations " + crossed() + " --order exact");
  json own = pipeline("--durations " + crossed() + " --order exact --schedule " +
                      path("1f1b.csv"));  // tasks and more, read back
  for (char const* const name : {"makespan", "makespan_given", "order", "digest"}) {
    EXPECT_EQ(own.at(name), named.at(name)) << name;
  }
  expect_refused(run(job + file("cycle.csv", columns + "0,0,0,backward\n0,0,0,forward\n"
                                                       "1,1,0,forward\n1,1,0,backward\n")),
                 1, "cycle.csv: the schedule deadlocks");
  expect_refused(run(job + file("pass.csv", columns + "0,0,0,up\n")), 1,
                 "pass.csv: line 2: column 'pass' holds 'up'");
  expect_refused(run(job + path("none.csv")), 1, "none.csv");
}

TEST_F(BallastPipeline, SaysWhenItsOutputIsLost)
{
  auto const result = run("pipeline --durations " + crossed() + " >/dev/full");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("standard output"));
}

TEST_F(BallastPipeline, ExplainsItself)
{
  auto const help = run("pipeline --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--durations"), HasSubstr("interleaved:v=N"),
                              HasSubstr("insertion"), HasSubstr("--transfer")));
}

}  // namespace
