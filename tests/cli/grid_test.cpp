// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace grid_command {

using ballast_test::answer;
using ballast_test::expect_refused;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// Lines of a CSV file below its header, as numbers.
std::vector<std::vector<long>> rows_of(std::string const& text)
{
  std::vector<std::vector<long>> rows;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string field;
    rows.emplace_back();
    while (std::getline(fields, field, ',')) { rows.back().push_back(std::stol(field)); }
  }
  return rows;
}

class BallastGrid : public ballast_test::program_test {
 protected:
  std::string trace(std::vector<std::pair<int, char>> const& samples) const
  {
    std::string text = "tokens,kind\n";
    for (auto const& [tokens, kind] : samples) {
      text += std::to_string(tokens) + "," + kind + "\n";
    }
    return "plan --gpus 2 --steps 1 --length tokens --cost tokens --trace " +
           file("trace.csv", text) + " ";
  }
};

TEST_F(BallastGrid, FindsTheLeastNumberAndWritesThePlan)
{
  std::vector<std::pair<int, char>> const samples(5, {95, 'a'});
  json const plan = json_of(trace(samples) +
                            "--batch 5 --microbatches auto --most-tokens-per-microbatch 100 "
                            "--no-shuffle --plan " +
                            path("plan.csv"));
  EXPECT_EQ(plan.at("microbatches_mean"), 3);
  EXPECT_EQ(plan.at("fewest_microbatches_mean"), 3);
  EXPECT_EQ(plan.at("microbatches_why").at(0),
            "the cap decides: at least 3 microbatches are needed");
  EXPECT_NEAR(plan.at("empty_share"), 1.0 / 6, 1e-9);
  EXPECT_EQ(plan.at("gap_max"), 0);
  std::string const written = ballast_test::content_of(path("plan.csv"));
  EXPECT_THAT(written, testing::StartsWith("step,sample,rank,slot,tokens,cost,bag\n"));
  std::map<std::pair<long, long>, int> cells;
  long sample = 0;
  for (auto const& row : rows_of(written)) {
    ASSERT_EQ(row.size(), 7U);
    EXPECT_EQ(row[0], 0);
    EXPECT_EQ(row[1], sample++);  // as they stand in the trace
    EXPECT_EQ(row[4], 95);
    EXPECT_EQ(row[5], 95);
    EXPECT_EQ((++cells[{row[2], row[3]}]), 1);
  }
  EXPECT_EQ(sample, 5);
}

TEST_F(BallastGrid, KeepsKindsApartAndMeetsInEveryMicrobatch)
{
  auto const result =
      run(trace({{10, 'a'}, {20, 'b'}, {10, 'a'}, {20, 'b'}}) +
          "--batch 4 --microbatches 2 --kind kind --meet microbatch --plan " + path("plan.csv"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("ranks meet in every microbatch"));
  EXPECT_THAT(result.out, HasSubstr("microbatches of step 1: the number was given; at least 2"));
  std::map<long, long> tokens_of_slot;
  for (auto const& row : rows_of(ballast_test::content_of(path("plan.csv")))) {
    EXPECT_EQ(tokens_of_slot.emplace(row[3], row[4]).first->second, row[4]);
  }
  EXPECT_EQ(tokens_of_slot.size(), 2U);
}

TEST_F(BallastGrid, WritesPagePictureAndTimeline)
{
  auto const result =
      run(trace({{10, 'a'}, {20, 'b'}, {30, 'a'}, {40, 'b'}}) +
          "--batch 4 --microbatches 2 --report " + path("page.html") + " --picture " +
          path("picture.svg") + " --timeline " + path("timeline.json"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(ballast_test::content_of(path("page.html")),
              AllOf(HasSubstr("microbatch 1 of 2"), HasSubstr("the number was given")));
  EXPECT_THAT(ballast_test::content_of(path("picture.svg")), HasSubstr("<svg"));
  EXPECT_TRUE(json::accept(ballast_test::content_of(path("timeline.json"))));
}

TEST_F(BallastGrid, WritesThePlanOfStepsThatAreComputedAtOnce)
{
  auto const result = run(trace({{10, 'a'}, {20, 'b'}, {30, 'a'}, {41, 'b'}}) +
                          "--batch 4 --bags g2n1 --no-shuffle --plan " + path("plan.csv"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  auto const rows = rows_of(ballast_test::content_of(path("plan.csv")));
  ASSERT_EQ(rows.size(), 8U);  // each sample on both GPUs
  EXPECT_EQ(rows[6][4] + rows[7][4], 41);
  EXPECT_EQ(rows[7][2], 1);
  EXPECT_EQ(rows[7][3], 0);
}

TEST_F(BallastGrid, CountsTheShortSamplesThatItAdmits)
{
  std::string const job = trace({{1, 'a'}, {1, 'a'}, {9, 'a'}}) + "--batch 3 --bags g2n1 ";
  expect_refused(run(job + "--microbatches 2"), 1, "admit it by --short-samples admit");
  std::string const admitted = job + "--microbatches 2 --short-samples admit ";
  EXPECT_THAT(run(admitted).out, HasSubstr("g2n1: 2 of 3 samples with fewer tokens"));
  EXPECT_EQ(json_of(admitted).at("short_samples"), 2);
}

TEST_F(BallastGrid, RefusesInASentence)
{
  std::string const samples = trace({{95, 'a'}, {95, 'a'}, {95, 'a'}});
  std::string const grid = samples + "--batch 3 --most-tokens-per-microbatch 100 ";
  expect_refused(run(grid + "--microbatches 1"), 1,
                 "no plan with 1 microbatch exists; the least found is 2");
  expect_refused(
      run(samples + "--batch 3 --microbatches 2 --most-tokens-per-microbatch 90"), 1,
      "sample 0 of weight 95 is above the cap of a cell, 90; split it, leave it out or raise "
      "the cap (row 1 of the trace)");
  for (std::string const number : {"many", "0", "1048577", "99999999999999999999"}) {
    expect_refused(run(grid + "--microbatches " + number), 2,
                   "--microbatches: '" + number + "' is no number from 1 to 1048576");
  }
  expect_refused(run(grid + "--microbatches 4 --multiple-of 3"), 2,
                 "--microbatches: 4 is no multiple of 3, as --multiple-of says");
  for (std::string const more : {"--bytes-per-token 8", "--latency-us 5 --report page.html"}) {
    expect_refused(run(grid + "--microbatches 2 " + more), 2,
                   "--microbatches does not show what moving samples takes");
  }
  expect_refused(run(grid), 2, "--microbatches");
  expect_refused(run(grid + "--microbatches 2 --policy lpt"), 2, "--policy do not go together");
  expect_refused(run(grid + "--microbatches 2 --bags g1n1 --bags g2n1"), 2, "one layout");
  expect_refused(run(grid + "--microbatches 2 --kind colour"), 2, "--kind: ");
  expect_refused(run(std::string("plan ") + ballast_test::mixed + "--no-shuffle"), 2,
                 "--no-shuffle goes with --trace");
}

}  // namespace grid_command
