// SPDX-License-Identifier: Apache-2.0
// Runs `ballast report` as a user does, on logs that a step_log wrote.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/report/step_log.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
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
    expect_refused(run("report " + file("bad.jsonl", line)), 1,
                   "line 1: " + why + ", and no line is one of a step_log; name the log of one");
  };
  std::string const form =
      "a task of 'tasks' is no array of rank, stage and microbatch, 0 or 1, and four times";
  refused("7", "'tasks' is no array");
  refused("[[0,0,0,0,1,2,0]]", form);
  refused("[[-1,0,0,0,1,2,0,0]]", form);
  refused("[[0,0,0,2,1,2,0,0]]", form);
}

TEST_F(BallastReport, TakesOneLog)
{
  expect_refused(run("report"), 2, "there is no log; name the file that a step_log wrote");
  expect_refused(run("report " + log(1) + " other.jsonl"), 2, "report does not take 'other.jsonl'");
  expect_refused(run("report --output x.html " + log(1) + " --page"), 2,
                 "report has no option '--page'");
}

TEST_F(BallastReport, PassesOverAWrongLineAndNamesIt)
{
  std::string const good = content_of(log(1));
  std::string lines = good;
  std::vector<std::string> reasons;
  auto const wrong = [&](std::string const& line, std::string const& why) {
    lines += line + "\n";
    reasons.push_back("line " + std::to_string(reasons.size() + 2) + ": " + why);
  };
  auto const with = [&](std::string const& old, std::string const& now) {
    std::string line = good.substr(0, good.size() - 1);
    return line.replace(line.find(old), old.size(), now);
  };
  wrong("", "it is no object of JSON");
  wrong(good.substr(0, 30), "it is no object of JSON");
  wrong("[1]", "it is no object of JSON");
  wrong(with("\"step\":1", "\"step\":\"1\""), "'step' is no whole number from 0");
  wrong(with("\"step\":1", "\"step\":-1"), "'step' is no whole number from 0");
  wrong(with("\"owner\":[0,", "\"owner\":[0.5,"),
        "'owner' is no array of whole numbers from 0 to 4294967295");
  wrong(with("\"speeds\":[1,", "\"speeds\":[4294967296,"),
        "'speeds' is no array of whole numbers from 0 to 4294967295");
  wrong(with("\"bound\":[900,1]", "\"bound\":[900]"), "'bound' is no fraction");
  wrong(with("\"bound\"", "\"bind\""), "'bound' is no array of whole numbers from");
  wrong("{\"step\":2,\"tasks\":[]}", "step 2 has no tasks");
  lines += "nor is this named\nnor this\n" + good;
  auto const result = run("report " + file("bad.jsonl", lines));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out,
              testing::StartsWith(
                  "2 steps; 12 lines passed over: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more\n"));
  for (std::string const& reason : reasons) { EXPECT_THAT(result.error, HasSubstr(reason)); }
  EXPECT_EQ(std::ranges::count(result.error, '\n'), 10) << result.error;
  EXPECT_THAT(content_of(path("bad.jsonl.html")), HasSubstr("12 lines passed over: 2, 3"));
  EXPECT_THAT(run("report " + file("one.jsonl", "?\n" + good)).out,
              testing::StartsWith("1 step; 1 line passed over: 1\n"));

  expect_refused(run("report " + file("empty.jsonl", "")), 1, "there is no finished line");
  expect_refused(run("report " + path("missing")), 1, "No such file or directory");
  expect_refused(run("report " + path("steps.jsonl") + " --output " + path("steps.jsonl")), 2,
                 "the log and --output name the same file");
}

// What step_log refuses to write is what report passes over; the lines are written here by hand.
TEST_F(BallastReport, PassesOverWhatALogDoesNotTake)
{
  using numbers = std::vector<std::int64_t>;
  struct entry {
    numbers lengths, costs, owner, loads, speeds, makespan, bound, measured;
  };
  entry const good{{9, 8}, {81, 64}, {0, 1}, {81, 64}, {1, 1}, {81, 1}, {81, 1}, {5, 4}};
  std::vector<entry> all{good};
  auto const spoiled = [&](numbers entry::* what, numbers const& now) {
    all.push_back(good);
    all.back().*what = now;
  };
  for (auto const what : {&entry::lengths, &entry::costs, &entry::loads, &entry::speeds,
                          &entry::owner, &entry::measured}) {
    spoiled(what, {0, 0});
    spoiled(what, {1});
    spoiled(what, {});
    spoiled(what, {1, 1 + (std::int64_t{1} << 20)});
    if (what != &entry::speeds && what != &entry::owner) { spoiled(what, {0, -1}); }
  }
  for (auto const what : {&entry::makespan, &entry::bound}) {
    for (numbers const& fraction :
         {numbers{0, 1}, {81, 0}, {-1, 1}, {162, 2}, {163, 2}, {81, -1}}) {
      spoiled(what, fraction);
    }
  }
  all.push_back({{}, {}, {}, {0, 0}, {1, 1}, {0, 1}, {0, 1}, {}});
  all.push_back({{}, {}, {}, {}, {}, {0, 1}, {0, 1}, {}});
  auto log = ballast::report::step_log::make(path("steps.jsonl")).value();
  std::string lines;
  std::size_t refused = 0;
  for (entry const& each : all) {
    std::vector<ballast::bag_id> owner;
    for (auto const bag : each.owner) {
      owner.push_back(ballast::to_id<ballast::bag_id>(static_cast<std::size_t>(bag)));
    }
    std::vector<std::uint32_t> const speeds(each.speeds.begin(), each.speeds.end());
    refused += log.append({.step = all.size(),
                           .lengths = each.lengths,
                           .costs = each.costs,
                           .owner = owner,
                           .loads = each.loads,
                           .speeds = speeds,
                           .makespan = {each.makespan[0], each.makespan[1]},
                           .lower_bound = {each.bound[0], each.bound[1]},
                           .measured_ns = each.measured})
                   ? 0
                   : 1;
    nlohmann::json const line{{"step", 1},
                              {"lengths", each.lengths},
                              {"costs", each.costs},
                              {"owner", each.owner},
                              {"loads", each.loads},
                              {"speeds", each.speeds},
                              {"makespan", each.makespan},
                              {"bound", each.bound},
                              {"measured_ns", each.measured}};
    lines += line.dump() + "\n";
  }
  EXPECT_GT(refused, 20U);
  std::string const kept = std::to_string(all.size() - refused) + " steps";
  EXPECT_THAT(run("report " + file("by_hand.jsonl", lines)).out,
              testing::StartsWith(kept + "; " + std::to_string(refused) + " lines passed over"));
  EXPECT_THAT(run("report " + path("steps.jsonl")).out, testing::StartsWith(kept + "\n"));
}

}  // namespace
