// SPDX-License-Identifier: Apache-2.0
// What --plan writes, for every command that plans, and the owners in the JSON of `plan`.

#include "program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace plan_files {

using ballast_test::content_of;
using ballast_test::expect_refused;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

using row = std::map<std::string, std::string>;

/// Rows of a CSV text by the names in its header.
std::vector<row> table_from(std::string const& text)
{
  std::istringstream lines(text);
  std::string line;
  std::vector<std::string> names;
  std::vector<row> rows;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::vector<std::string> values;
    for (std::string field; std::getline(fields, field, ',');) { values.push_back(field); }
    if (names.empty()) {
      names = values;
      continue;
    }
    EXPECT_EQ(values.size(), names.size()) << line;
    rows.emplace_back();
    for (std::size_t at = 0; at < std::min(values.size(), names.size()); ++at) {
      rows.back()[names[at]] = values[at];
    }
  }
  return rows;
}

class BallastPlanFiles : public ballast_test::program_test {
 protected:
  std::string four_samples() const
  {
    return "--length tokens --cost tokens --gpus 2 --trace " +
           file("trace.csv", "tokens\n95\n20\n30\n41\n") + " ";
  }
  std::string layouts() const
  {
    std::string const folder = std::string(BALLAST_SOURCE_DIR) + "/examples/layout_";
    return "--profile " + folder + "profile.csv --data " + folder +
           "data.csv --gpus 16 --memory 80GB --global-batch 64 ";
  }
};

TEST_F(BallastPlanFiles, HaveEveryOwnerOnStandardOutput)
{
  auto const planned = run("plan " + four_samples() + "--no-shuffle --plan -");
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_THAT(planned.out, StartsWith("step,sample,rank,slot,tokens,cost,bag\n0,0,0,0,95,95,0\n"));
  EXPECT_THAT(planned.error, HasSubstr("4 samples per step, 1 step, 2 GPUs"));
  EXPECT_EQ(table_from(planned.out).size(), 4U);

  auto const routed = run("route " + four_samples() + "--no-shuffle --bytes-per-token 2 --plan -");
  ASSERT_EQ(routed.exit_code, 0) << routed.error;
  auto const rows = table_from(routed.out);
  ASSERT_EQ(rows.size(), 4U);
  for (std::size_t sample = 0; sample < rows.size(); ++sample) {
    EXPECT_EQ(rows[sample].at("source"), sample < 2 ? "0" : "1");
    EXPECT_EQ(rows[sample].at("bag"), table_from(planned.out)[sample].at("bag"));
  }
  EXPECT_THAT(routed.error, HasSubstr("all-gather"));
}

TEST_F(BallastPlanFiles, AreReadBackAndAreJsonLinesWhereTheirNameSaysSo)
{
  std::string const plan = "plan " + four_samples() + "--no-shuffle --plan ";
  ASSERT_EQ(run(plan + path("plan.csv")).exit_code, 0);
  ASSERT_EQ(run(plan + path("plan.jsonl")).exit_code, 0);
  std::istringstream lines(content_of(path("plan.jsonl")));
  std::size_t samples = 0;
  auto const rows = table_from(content_of(path("plan.csv")));
  for (auto const& planned : rows) {
    std::string line;
    std::getline(lines, line);
    json expected;
    for (auto const& [column, value] : planned) { expected[column] = std::stoll(value); }
    EXPECT_EQ(json::parse(line), expected);
    EXPECT_EQ(planned.at("sample"), std::to_string(samples++));
  }
  EXPECT_EQ(samples, 4U);
  ASSERT_EQ(run("pipeline --order given --durations " + std::string(BALLAST_SOURCE_DIR) +
                "/examples/pipeline_times.csv --plan " + path("tasks.jsonl"))
                .exit_code,
            0);
  std::string const tasks = content_of(path("tasks.jsonl"));
  EXPECT_EQ(json::parse(tasks.substr(0, tasks.find('\n'))).at("pass"), "forward");
}

TEST_F(BallastPlanFiles, AreOfATraceFromStandardInput)
{
  std::string const trace = file("in.csv", "tokens\n95\n20\n30\n41\n");
  std::string const job = "plan --length tokens --cost tokens --gpus 2 --no-shuffle --plan - ";
  auto const from_input = run(job + "--trace -", "", trace);
  ASSERT_EQ(from_input.exit_code, 0) << from_input.error;
  EXPECT_EQ(from_input.out, run(job + "--trace " + trace).out);
  expect_refused(run(job + "--trace - --measured -", "", trace), 2,
                 "--trace and --measured both read standard input; name a file for --measured");
}

TEST_F(BallastPlanFiles, AgreeWithTheOwnersInJson)
{
  for (std::string const more :
       {"--steps 3 --batch 4", "--steps 2 --batch 4 --microbatches 2", "--batch 4 --bags g2n1"}) {
    json const owners =
        json_of("plan " + four_samples() + more + " --plan " + path("plan.csv")).at("owners");
    std::size_t samples = 0;
    for (json const& step : owners) { samples += step.at("samples").size(); }
    std::set<std::string> seen;
    for (row const& each : table_from(content_of(path("plan.csv")))) {
      json const& step = owners.at(std::stoul(each.at("step")));
      auto const& rows = step.at("samples");
      auto const at = static_cast<std::size_t>(
          std::find(rows.begin(), rows.end(), std::stoul(each.at("sample"))) - rows.begin());
      EXPECT_EQ(step.at("bags").at(at), std::stoul(each.at("bag"))) << more;
      EXPECT_EQ(step.contains("slots") ? step.at("slots").at(at).get<std::size_t>() : 0U,
                std::stoul(each.at("slot")));
      seen.insert(each.at("step") + "," + each.at("sample"));
    }
    EXPECT_EQ(seen.size(), samples) << more;
  }
}

TEST_F(BallastPlanFiles, TakeTheTraceAsItStands)
{
  // Without a batch all rows are one step, and there is one step; with one, steps follow the rows.
  auto const whole = json_of("plan " + four_samples() + "--no-shuffle");
  EXPECT_EQ(whole.at("steps"), 1);
  EXPECT_EQ(whole.at("owners").at(0).at("samples"), json({0, 1, 2, 3}));
  auto const halves = json_of("plan " + four_samples() + "--no-shuffle --batch 2 --steps 2");
  EXPECT_EQ(halves.at("owners").at(1).at("samples"), json({2, 3}));
  auto const grid = json_of("plan " + four_samples() + "--no-shuffle --microbatches 2");
  EXPECT_EQ(grid.at("owners").at(0).at("samples"), json({0, 1, 2, 3}));
}

TEST_F(BallastPlanFiles, HaveEveryRowOnceInTheStepsOfAPass)
{
  std::string const job =
      "--trace " + file("seven.csv", "a\n1\n2\n3\n4\n5\n6\n7\n") + " --length a --batch 3 --steps ";
  for (std::string const how : {"", "--no-shuffle", "--microbatches 1"}) {
    auto const owners =
        json_of("plan --gpus 1 --cost tokens " + how + " " + job + "6").at("owners");
    ASSERT_EQ(owners.size(), 6U);
    for (std::size_t step = 0; step < 6; step += 3) {  // the first of a pass
      std::set<std::size_t> rows;
      for (std::size_t at = step; at < step + 3; ++at) {
        auto const& samples = owners.at(at).at("samples");
        EXPECT_EQ(samples.size(), at == step + 2 ? 1U : 3U) << how;
        rows.insert(samples.begin(), samples.end());
      }
      EXPECT_EQ(rows.size(), 7U) << how;
    }
  }
  // A short step is told where there is one, by every command that reads steps.
  for (std::string const command : {"plan --gpus 1 ", "plan --gpus 1 --microbatches 1 ",
                                    "compare --gpus 1 ", "route --gpus 1 ", "route --units 1:1 "}) {
    EXPECT_THAT(run(command + job + "3").out,
                HasSubstr("7 rows, 3 samples per step (1 in the last of a pass), 3 steps"))
        << command;
    EXPECT_THAT(run(command + job + "2").out, HasSubstr("3 samples per step, 2 steps")) << command;
  }
  expect_refused(run("plan --gpus 1 --microbatches 2 " + job + "3"), 2,
                 "2 are more than the 1 sample of step 3; give at most that many, or auto; step 3 "
                 "has the last 1 row of the trace, and --steps 2 leaves it out");
}

TEST_F(BallastPlanFiles, HaveTheMachineOfEveryJob)
{
  std::string const first = file("a.txt", "3\n7\n5\n5\n4\n4\n3\n3\n3\n");
  std::string const second = file("b.txt", "1\n2\n8\n9\n");
  auto const result = run("partition --instances " + first + " " + second + " --plan -");
  ASSERT_EQ(result.exit_code, 0) << result.error;
  std::map<std::string, long> loads;
  auto const rows = table_from(result.out);
  EXPECT_EQ(rows.size(), 9U);
  for (row const& each : rows) {
    loads[each.at("step") + "/" + each.at("bag")] += std::stol(each.at("cost"));
  }
  EXPECT_EQ(loads, (std::map<std::string, long>{{"0/0", 9}, {"0/1", 9}, {"0/2", 9}, {"1/0", 17}}));
}

TEST_F(BallastPlanFiles, HaveTheTasksOfEveryRankInTheirOrder)
{
  json const plan =
      json_of("pipeline --durations " BALLAST_SOURCE_DIR "/examples/pipeline_times.csv --plan " +
              path("tasks.csv"));
  auto const rows = table_from(content_of(path("tasks.csv")));
  EXPECT_EQ(rows.size(), 12U * 8 * 2);
  std::vector<unsigned long> order;
  double busy_until = 0;
  for (row const& each : rows) {
    if (each.at("rank") != "0") { continue; }
    EXPECT_GE(std::stod(each.at("start")), busy_until);
    busy_until = std::stod(each.at("end"));
    if (each.at("pass") == "forward") { order.push_back(std::stoul(each.at("microbatch"))); }
  }
  EXPECT_EQ(plan.at("order"), json(order));
  EXPECT_EQ(plan.at("makespan"), busy_until);
}

TEST_F(BallastPlanFiles, HaveTheLayoutOfEveryModule)
{
  for (std::string const command : {"search", "orchestrate"}) {
    json const found =
        json_of(command + " " + layouts() + "--plan " + path("layouts.csv")).at("layouts");
    auto const rows = table_from(content_of(path("layouts.csv")));
    ASSERT_EQ(rows.size(), 2 * found.size());
    for (std::size_t at = 0; at < rows.size(); ++at) {
      json const& layout = found.at(at / 2);
      json const& of = layout.at("modules").at(at % 2);
      EXPECT_EQ(rows[at].at("module"), of.at("name").get<std::string>());
      for (char const* const name : {"tp", "pp", "dp", "gpus"}) {
        EXPECT_EQ(std::stoul(rows[at].at(name)), of.at(name)) << name;
      }
      EXPECT_EQ(std::stod(rows[at].at("simulated_seconds")), layout.at("simulated_seconds"));
    }
    auto const printed = run(command + " " + layouts() + "--plan -");
    EXPECT_EQ(table_from(printed.out).size(), rows.size());
    EXPECT_THAT(printed.error, HasSubstr("predicted"));
  }
}

TEST_F(BallastPlanFiles, AreRefusedWhereTheyWouldMixWithSomethingElse)
{
  std::string const instance = file("a.txt", "1\n1\n1\n");
  for (std::string const& command :
       {"plan " + four_samples(), "plan --microbatches 2 " + four_samples(),
        "route " + four_samples(), "partition --instances " + instance, "search " + layouts(),
        "orchestrate " + layouts(),
        std::string("pipeline --durations " BALLAST_SOURCE_DIR "/examples/pipeline_times.csv")}) {
    expect_refused(run(command + " --format json --plan -"), 2,
                   "--plan - and --format json both go to standard output; name a file");
    expect_refused(run(command + " --plan ''"), 2, "the path is empty; name a file");
    std::string const lost = path("none/plan.csv");
    bool const needs_bytes = command.starts_with("route");
    expect_refused(run(command + (needs_bytes ? " --bytes-per-token 2" : "") + " --plan " + lost),
                   1, "cannot write '" + lost + "'");
  }
  expect_refused(run("partition --instances " + instance + " --plan " + instance), 2,
                 "--plan name the same file");
  expect_refused(run("route --bytes-per-token 2 " + four_samples() +
                     "--bags g1n2 --bags g2n1 --plan " + path("plan.csv")),
                 2, "--plan is of one layout; give one --bags with it");
  expect_refused(run("route --units 1:1 " + four_samples() + "--plan " + path("plan.csv")), 2,
                 "--plan and --units do not go together; leave one of them out");
}

// No file of that name is written or looked for.
TEST_F(BallastPlanFiles, TakesAMinusWhereItMeansSomething)
{
  for (std::string const output : {"--report", "--picture", "--timeline"}) {
    expect_refused(run("plan " + four_samples() + output + " -"), 2,
                   output + ": '-' is standard output for --plan alone; name a file");
  }
  expect_refused(run("profile --output -"), 2, "--output: '-' is no file; name one");
  expect_refused(run("plan --trace - --length tokens --gpus 2"), 2,
                 "--trace: /dev/stdin is a device; name a file");  // /dev/null
  expect_refused(run("partition --instances -"), 2,
                 "'-' is no file; give /dev/stdin for standard input");
}

}  // namespace plan_files
