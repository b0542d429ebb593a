// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/plan_figures.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using ballast::exchange_cost;
using pages::plan_page_step;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::vector<plan_page_step> two_steps()
{
  std::vector<plan_page_step> steps(2);
  exchange_cost first{.kept_share = 0.5,
                      .messages_mean = 3,
                      .messages_max = 7,
                      .bytes_mean = 2e6,
                      .bytes_max = 9e6,
                      .seconds = 2e-3};
  exchange_cost second{.kept_share = 0.25,
                       .messages_mean = 4,
                       .messages_max = 5,
                       .bytes_mean = 4e6,
                       .bytes_max = 8e6,
                       .seconds = 4e-3};
  steps[0].exchange = first;
  steps[1].exchange = second;
  return steps;
}

TEST(PlanPageFigures, ShowsMeansAndWorstCasesOfTheExchanges)
{
  auto steps = two_steps();
  auto figures = pages::exchange_figures(steps, 16, "");
  std::vector<std::string> shown;
  for (auto const& each : figures) { shown.push_back(each.value); }
  EXPECT_THAT(shown, ElementsAre("3\u00A0MB", "38\u00A0%", "3.5", "3\u00A0ms"));
  EXPECT_THAT(figures[0].hint, HasSubstr("more than 9\u00A0MB"));
  EXPECT_THAT(figures[2].hint, HasSubstr("more than 7 in"));
  EXPECT_THAT(figures[1].hint, HasSubstr("chance: about 6.2\u00A0% with 16 GPUs."));
  EXPECT_THAT(figures[3].hint, Not(HasSubstr("computes")));

  steps[0].compute_seconds = 0.1;
  steps[1].compute_seconds = 0.3;
  figures = pages::exchange_figures(steps, 16, "");
  EXPECT_THAT(figures[3].hint, HasSubstr("The busiest GPU computes for 200\u00A0ms."));
  figures = pages::exchange_figures(steps, 16, "the forward pass");
  EXPECT_THAT(figures[3].hint, HasSubstr("computes for 200\u00A0ms: the forward pass."));
  EXPECT_TRUE(pages::exchange_figures({}, 1, "").empty());
}

TEST(PlanPageFigures, ComparesWithAllGatherWhereItIsPriced)
{
  auto steps = two_steps();
  for (auto const& each : pages::exchange_figures(steps, 16, "")) {
    EXPECT_THAT(each.hint, Not(HasSubstr("all-gather")));
  }
  for (double const times : {10.0, 30.0}) {
    auto& all_gather = steps[times < 20 ? 0 : 1].all_gather.emplace();
    all_gather.bytes_mean = times * 1e6;
    all_gather.seconds = times * 1e-3;
  }
  auto const figures = pages::exchange_figures(steps, 16, "");
  EXPECT_THAT(figures[0].hint, HasSubstr("all-gather, without a plan: 20\u00A0MB."));
  EXPECT_THAT(figures[3].hint, HasSubstr("all-gather, without a plan: 20\u00A0ms."));
}

TEST(PlanPageFigures, PromisesLessComputingAndPointsToWhatItCosts)
{
  auto steps = two_steps();
  for (auto& step : steps) {
    step.before = {.heaviest = 2, .lightest = 0, .mean = 1};
    step.after = {.heaviest = 1, .lightest = 1, .mean = 1};
  }
  EXPECT_THAT(pages::plan_lead(steps),
              EndsWith("so computing takes 50\u00A0% less time. Bytes moved says what moving the "
                       "samples takes."));
  for (auto& step : steps) { step.exchange.reset(); }
  EXPECT_THAT(pages::plan_lead(steps), EndsWith("so computing takes 50\u00A0% less time."));
}

}  // namespace
