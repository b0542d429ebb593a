// SPDX-License-Identifier: Apache-2.0
// Runs `ballast pack` as a user does, and checks its bins by adding them up.

#include "program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace pack_command {

using ballast_test::content_of;
using ballast_test::expect_refused;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class BallastPack : public ballast_test::program_test {
 protected:
  std::string trace(std::vector<long> const& lengths) const
  {
    std::string text = "tokens\n";
    for (long const length : lengths) { text += std::to_string(length) + "\n"; }
    return "pack --length tokens --trace " + file("trace.csv", text) + " ";
  }
};

TEST_F(BallastPack, FindsTheFewestBinsAndWritesThem)
{
  std::vector<long> const lengths{700, 600, 500, 400, 300};
  auto const result = run(trace(lengths) + "--capacity 1000 --plan -");
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, StartsWith("step,sample,bag,tokens\n0,0,"));
  EXPECT_THAT(result.error, HasSubstr("at most 1000 tokens in a bin"));
  std::istringstream lines(result.out);
  std::string line;
  std::getline(lines, line);
  std::map<long, long> loads;
  std::size_t sample = 0;
  while (std::getline(lines, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    long step = 0;
    std::size_t row = 0;
    long bin = 0;
    long tokens = 0;
    fields >> step >> row >> bin >> tokens;
    ASSERT_LT(sample, lengths.size());
    EXPECT_EQ(row, sample);
    EXPECT_EQ(tokens, lengths[sample++]);
    EXPECT_LE(loads[bin] += tokens, 1000);
  }
  EXPECT_EQ(sample, lengths.size());
  EXPECT_EQ(loads.size(), 3U);  // all together are 2500

  json const said = json_of(trace(lengths) + "--capacity 1000");
  EXPECT_EQ(said.at("bins"), 3);
  EXPECT_EQ(said.at("fewest_bins"), 3);
  EXPECT_EQ(said.at("gap"), 0.0);
  EXPECT_DOUBLE_EQ(said.at("full_share"), 2500.0 / 3000);
}

TEST_F(BallastPack, KeepsToTheRules)
{
  std::string const forty = trace(std::vector<long>(40, 10)) + "--capacity 4096 ";
  EXPECT_EQ(json_of(forty).at("bins"), 1);
  EXPECT_EQ(json_of(forty + "--most-samples 16").at("bins"), 3);
  json const multiple = json_of(forty + "--most-samples 16 --multiple-of 4");
  EXPECT_EQ(multiple.at("bins"), 4);
  EXPECT_EQ(multiple.at("largest"), 100);
  EXPECT_EQ(multiple.at("largest_bound"), 100);
  EXPECT_EQ(json_of(forty + "--least-bins 7").at("bins"), 7);
  EXPECT_EQ(json_of(forty + "--least-bins 50").at("empty_bins"), 10);
  EXPECT_EQ(json_of(forty + "--length-multiple 128").at("bins"), 2);
  // {100 90} and {10 x 6}, where sums would leave one bin full.
  std::string const uneven = trace({100, 90, 10, 10, 10, 10, 10, 10}) + "--capacity 200 ";
  EXPECT_EQ(json_of(uneven + "--padded").at("bins"), 2);
  EXPECT_EQ(json_of(uneven + "--padded").at("largest"), 200);
  EXPECT_EQ(json_of(uneven + "--padded").at("owners").at(0), json({0, 0, 1, 1, 1, 1, 1, 1}));
}

TEST_F(BallastPack, TakesStepsAsTheyStand)
{
  std::string const five = trace({700, 600, 500, 400, 300}) + "--capacity 1000 --batch 2 ";
  json const said = json_of(five + "--plan " + path("plan.csv"));
  EXPECT_EQ(said.at("steps"), 3);
  EXPECT_EQ(said.at("samples"), 5);
  EXPECT_EQ(said.at("bins"), 2 + 1 + 1);
  EXPECT_EQ(said.at("owners").at(2), json::array({0}));
  EXPECT_THAT(content_of(path("plan.csv")), HasSubstr("\n2,4,0,300\n"));
  auto const table = run(five);
  EXPECT_THAT(table.out, HasSubstr("\nall "));
  EXPECT_THAT(table.out, HasSubstr("\n2  "));
}

TEST_F(BallastPack, RefusesInASentence)
{
  std::string const five = trace({700, 600, 500, 400, 300});
  expect_refused(run(five + "--capacity 650"), 1,
                 "step 0: sample 0 of weight 700 is above the capacity of a bin, 650");
  expect_refused(run(five + "--capacity 650"), 1, "(row 1 of the trace)");
  expect_refused(run(five + "--capacity 0"), 2, "'0' is no whole number from 1");
  expect_refused(run(five + "--capacity 1000 --most-samples 0"), 2, "--most-samples: '0' is no");
  expect_refused(run(five + "--capacity 1000 --multiple-of 0"), 2, "--multiple-of: '0' is no");
  expect_refused(run(five + "--capacity 1000 --batch 6"), 2,
                 "--batch: 6 samples a step are more than the 5 rows");
  expect_refused(run(five), 2, "--capacity is required");
  expect_refused(run("pack --length tokens --capacity 5"), 2, "--trace is required");
  expect_refused(run("pack --length words --capacity 5 --trace " + path("trace.csv")), 1,
                 "there is no column 'words'");
  expect_refused(run("pack --length tokens --capacity 5 --trace " + path("none.csv")), 1,
                 "none.csv");
  expect_refused(run(five + "--capacity 1000 --format json --plan -"), 2,
                 "--plan - and --format json");
  expect_refused(run(five + "--capacity 1000 --plan " + path("trace.csv")), 2, "the same file");
}

}  // namespace pack_command
