// SPDX-License-Identifier: Apache-2.0
// Runs `ballast report` as a user does, on logs that a step_log wrote.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/report/step_log.hpp>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace {

using ballast_test::content_of;
using ballast_test::expect_refused;
using testing::HasSubstr;

class BallastReport : public ballast_test::program_test {
 protected:
  /// A log of so many steps, which grow more even.
  std::string log(std::int64_t steps, bool is_measured = true) const
  {
    auto written = ballast::report::step_log::make(path("steps.jsonl")).value();
    for (std::int64_t step = 1; step <= steps; ++step) {
      std::vector<ballast::tokens> const lengths = {900, 100};
      std::vector<ballast::cost_units> const loads = {900 + 100 / step, 900 - 100 / step};
      std::vector<ballast::bag_id> const owner = {ballast::bag_id{0}, ballast::bag_id{1}};
      std::vector<std::uint32_t> const speeds = {1, 1};
      std::vector<std::int64_t> measured;
      if (is_measured) { measured = {loads[0] * 1'000'000, loads[1] * 1'000'000}; }
      EXPECT_TRUE(written.append({.step = static_cast<std::uint64_t>(step),
                                  .lengths = lengths,
                                  .costs = loads,
                                  .owner = owner,
                                  .loads = loads,
                                  .speeds = speeds,
                                  .makespan = {loads[0], 1},
                                  .lower_bound = {900, 1},
                                  .measured_ns = measured}));
    }
    return path("steps.jsonl");
  }
};

TEST_F(BallastReport, DrawsThePageOfALog)
{
  auto const result = run("report " + log(40) + " --output " + path("page.html"));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "40 steps\npage     " + path("page.html") + "\n");
  std::string const page = content_of(path("page.html"));
  for (std::string const part :
       {"<h2>Load per GPU</h2>", "<h2>Above the bound</h2>", "<h2>Measured times</h2>",
        "<h2>Worst steps</h2>", "\u2264\u00A012\u00A0%", "1\u00A0s"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  // By itself it goes beside the log, and what was not measured is not shown.
  std::ofstream(path("steps.jsonl")).close();
  EXPECT_EQ(run("report " + log(1, false)).exit_code, 0);
  EXPECT_THAT(content_of(path("steps.jsonl.html")), testing::Not(HasSubstr("Measured times")));
}

TEST_F(BallastReport, LeavesOutALineThatIsStillWritten)
{
  std::string const file = log(2);
  std::ofstream(file, std::ios::app) << R"({"step":3,"lengths":[9)";
  auto const result = run("report " + file);
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("2 steps; the last line is not finished and left out\n"));
  EXPECT_THAT(content_of(file + ".html"), HasSubstr("the last line, which is not finished"));
  log(1);  // which goes on after the two
  EXPECT_THAT(run("report " + file).out, testing::StartsWith("3 steps\n"));
}

TEST_F(BallastReport, TakesMeansOfMeasuredTimesOverTheStepsThatHaveThem)
{
  log(1);
  auto const result = run("report " + log(3, false));  // which goes on after the first
  ASSERT_EQ(result.out.substr(0, 8), "4 steps\n") << result.error;
  std::string const page = content_of(path("steps.jsonl.html"));
  EXPECT_THAT(page, HasSubstr("Mean of the measured steps: 1 of 4."));
  EXPECT_THAT(page, HasSubstr("1\u00A0s"));
}

TEST_F(BallastReport, ShowsStepsAsTheLogNumbersThem)
{
  std::string line = content_of(log(1));
  line.replace(line.find("\"step\":1"), 8, "\"step\":18446744073709551615");
  EXPECT_EQ(run("report " + file("late.jsonl", line)).exit_code, 0);
  EXPECT_THAT(content_of(path("late.jsonl.html")), HasSubstr("709\u202F551\u202F615"));
}

TEST_F(BallastReport, DrawsAPipelineAsItRanBesideItsSimulation)
{
  std::vector<ballast::report::task_entry> tasks{
      {0, 0, 3, false, 0, 5'000'000, 0, 4'000'000},
      {1, 1, 3, true, 5'000'000, 9'000'000, 4'000'000, 8'000'000}};
  auto written = ballast::report::step_log::make(path("steps.jsonl")).value();
  ASSERT_TRUE(written.append_pipeline(1, tasks));
  auto const alone = run("report " + path("steps.jsonl"));
  EXPECT_THAT(alone.out, testing::StartsWith("0 steps; 1 step of a pipeline\n")) << alone.error;
  std::string const page = content_of(path("steps.jsonl.html"));
  for (std::string const part :
       {"<h2>Pipeline</h2>", ">Simulated<", ">Measured<",
        "It took 1.12 times as long as simulated.", "rank 1, stage 1, backward of microbatch 3"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  // With plans in the log, and where nothing was simulated.
  for (auto& task : tasks) { task.simulated_start = task.simulated_end = 0; }
  ASSERT_TRUE(written.append_pipeline(2, tasks));
  auto const both = run("report " + log(3));
  EXPECT_THAT(both.out, testing::StartsWith("3 steps; 2 steps of a pipeline\n")) << both.error;
  EXPECT_THAT(content_of(path("steps.jsonl.html")), HasSubstr("<h2>Load per GPU</h2>"));

  auto const refused = [&](std::string const& of, std::string const& why) {
    std::string const line = "{\"step\":1,\"tasks\":" + of + "}\n";
    expect_refused(run("report " + file("bad.jsonl", line)), 1, "line 1: " + why);
  };
  refused("[]", "'tasks' is no array of tasks");
  refused("[[0,0,0,0,1,2,0]]", "a task of 'tasks' is no array of 8 whole numbers from 0");
  refused("[[0,0,1048576,0,1,2,0,0]]",
          "a task of 'tasks' has a rank, stage or microbatch of 1048576");
  refused("[[0,0,0,2,1,2,0,0]]", "a task of 'tasks' is neither 0, a forward, nor 1, a backward");
  refused("[[0,0,0,1,3,2,0,0]]", "a task of 'tasks' is neither 0, a forward, nor 1, a backward");
}

TEST_F(BallastReport, TakesOneLog)
{
  expect_refused(run("report"), 2, "there is no log; name the file that a step_log wrote");
  expect_refused(run("report " + log(1) + " other.jsonl"), 2, "report does not take 'other.jsonl'");
  expect_refused(run("report --output x.html " + log(1) + " --page"), 2,
                 "report has no option '--page'");
}

TEST_F(BallastReport, RefusesAWrongLineWithItsNumber)
{
  std::string const good = content_of(log(1));
  auto const refused = [&](std::string const& line, std::string const& why) {
    expect_refused(run("report " + file("bad.jsonl", good + line + "\n" + good)), 1,
                   "bad.jsonl: line 2: " + why + "; remove the line, or name the log");
  };
  auto const with = [&](std::string const& old, std::string const& now) {
    std::string line = good.substr(0, good.size() - 1);
    return line.replace(line.find(old), old.size(), now);
  };
  refused("", "it is no object of JSON");
  refused(good.substr(0, 30), "it is no object of JSON");
  refused("[1]", "it is no object of JSON");
  refused(with("\"step\":1", "\"step\":\"1\""), "'step' is no whole number from 0");
  refused(with("\"step\":1", "\"step\":-1"), "'step' is no whole number from 0");
  refused(with("[900,100]", "[900,9223372036854775807]"), "'lengths' adds up to 2^63 or more");
  refused(with("\"owner\":[0,1]", "\"owner\":[0,2]"),
          "'owner' names a bag that 'loads' does not have");
  refused(with("\"owner\":[0,", "\"owner\":[0.5,"), "'owner' is no array of whole numbers from 0");
  refused(with("\"speeds\":[1,", "\"speeds\":[0,"), "'speeds' is no array of whole numbers from 1");
  refused(with("\"bound\"", "\"bind\""), "'bound' is no array of whole numbers from 0");
  refused(with("[900,100]", "[900]"), "'lengths', 'costs' and 'owner' differ in size");
  refused(with("\"speeds\":[1,1]", "\"speeds\":[1]"), "'loads' and 'speeds' differ in size");
  refused(with("\"bound\":[900,1]", "\"bound\":[900]"), "'makespan' or 'bound' is no fraction");
  refused(with("\"bound\":[900,1]", "\"bound\":[9000,1]"), "'makespan' is below 'bound'");
  expect_refused(run("report " + file("empty.jsonl", "")), 1, "there is no finished line");
  expect_refused(run("report " + path("missing")), 1, "No such file or directory");
  expect_refused(run("report " + path("steps.jsonl") + " --output " + path("steps.jsonl")), 2,
                 "the log and --output name the same file");
}

}  // namespace
