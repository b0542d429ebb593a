// SPDX-License-Identifier: Apache-2.0
// Runs `ballast compare` as a user does, and compares it with `ballast plan` on the same steps.

#include "program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace compare_command {

using ballast_test::expect_refused;
using ballast_test::mixed;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class BallastCompare : public ballast_test::program_test {
 protected:
};

TEST_F(BallastCompare, FindsWhatPlanFindsForEachCombination)
{
  std::string const steps = std::string(mixed) + "--steps 3 --seed 5 ";
  json const found = json_of("compare " + steps +
                             "--policy lpt --policy refine:lpt,work=500 --policy round_robin "
                             "--bags g4n8 --bags g8n4");
  auto const& combinations = found.at("combinations");
  ASSERT_EQ(combinations.size(), 6U);
  std::size_t next = 0;
  double best = 1;
  for (std::string const policy : {"lpt", "refine:lpt,work=500", "round_robin"}) {
    for (std::string const bags : {"g4n8", "g8n4"}) {
      json const& each = combinations.at(next++);
      json const plan = json_of("plan " + steps + "--policy " + policy + " --bags " + bags);
      EXPECT_EQ(each.at("policy"), policy);
      EXPECT_EQ(each.at("bags"), bags);
      for (char const* const name : {"gap_mean", "gap_max", "moved_share", "digest"}) {
        EXPECT_EQ(each.at(name), plan.at(name)) << policy << bags << name;
      }
      EXPECT_DOUBLE_EQ(each.at("balance_ratio"), plan.at("balance_ratio_after"));
      EXPECT_NEAR(each.at("idle_share"), plan.at("idle_share_after"), 1e-12);
      EXPECT_DOUBLE_EQ(found.at("as_read").at("balance_ratio"), plan.at("balance_ratio_before"));
      EXPECT_GE(each.at("above_best"), 0.0);
      best = std::min(best, each.at("above_best").get<double>());
    }
  }
  EXPECT_EQ(best, 0.0);
}

TEST_F(BallastCompare, WritesOnePageOverTheSameBatches)
{
  auto const result = run("compare " + std::string(mixed) +
                          "--steps 2 --policy lpt --policy refine --report " + path("page.html"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("page     " + path("page.html")));
  EXPECT_THAT(ballast_test::content_of(path("page.html")),
              AllOf(HasSubstr("as read"), HasSubstr("refine over"), HasSubstr("lpt over")));
}

TEST_F(BallastCompare, TakesLimitsAndATraceThatIsRead)
{
  std::string const trace =
      "--gpus 2 --length a --cost tokens --no-shuffle --trace " + file("t.csv", "a\n9\n1\n1\n1\n");
  json const found = json_of("compare " + trace +
                             " --policy round_robin --policy refine "
                             "--most-tokens-per-gpu 9 --most-tokens-per-gpu 12");
  EXPECT_EQ(found.at("samples"), 4);
  EXPECT_EQ(found.at("steps"), 1);
  ASSERT_EQ(found.at("combinations").size(), 4U);
  EXPECT_EQ(found.at("combinations").at(1).at("most_tokens_per_gpu"), 12);
  EXPECT_NEAR(found.at("as_read").at("above_best"), 10.0 / 9 - 1, 1e-12);
  auto const table = run("compare " + trace + " --policy lpt --most-tokens-per-gpu 12");
  EXPECT_EQ(table.exit_code, 0) << table.error;
  EXPECT_THAT(table.out, AllOf(HasSubstr("policy as below"), HasSubstr("\nas read "),
                               HasSubstr("\nlpt     g1n2         12")));
}

TEST_F(BallastCompare, PlansByTheDefaultWithoutAPolicy)
{
  json const found = json_of(std::string("compare --steps 1 ") + mixed);
  ASSERT_EQ(found.at("combinations").size(), 1U);
  EXPECT_EQ(found.at("combinations").at(0).at("policy"), "refine");
}

TEST_F(BallastCompare, RefusesInASentence)
{
  std::string const compare = std::string("compare ") + mixed;
  std::string seven;
  for (int at = 0; at < 7; ++at) { seven += "--policy lpt "; }
  expect_refused(run(compare + seven + "--bags g4n8 --bags g8n4"), 2,
                 "7 of --policy, 1 of --most-tokens-per-gpu and 2 of --bags are 14 combinations; "
                 "give 12 at most");
  expect_refused(run(compare + "--policy lpt --policy nope"), 2, "--policy: at offset 0 of 'nope'");
  expect_refused(run(compare + "--most-tokens-per-gpu 0"), 2,
                 "--most-tokens-per-gpu: '0' is no whole number from 1");
  expect_refused(run(compare + "--most-tokens-per-gpu 100"), 1,
                 "policy refine: step 1, bags g1n32");
  expect_refused(run(compare + "--latency-us 5"), 2, "compare does not show what moving samples");
  expect_refused(run(compare + "--timeline x"), 2, "compare has no option '--timeline'");
  expect_refused(run("compare --gpus 2"), 2, "give the samples either as --trace FILE");
}

}  // namespace compare_command
