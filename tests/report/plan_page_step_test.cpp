// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/plan_page_step.hpp>

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using ballast::exchange_cost;
using ballast::plan_page_step;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<plan_page_step> two_steps()
{
  std::vector<plan_page_step> steps(2);
  exchange_cost first;
  first.kept_share = 0.5;
  first.messages_mean = 3;
  first.messages_max = 7;
  first.bytes_mean = 2e6;
  first.bytes_max = 9e6;
  first.seconds = 2e-3;
  exchange_cost second;
  second.kept_share = 0.25;
  second.messages_mean = 4;
  second.messages_max = 5;
  second.bytes_mean = 4e6;
  second.bytes_max = 8e6;
  second.seconds = 4e-3;
  steps[0].exchange = first;
  steps[1].exchange = second;
  return steps;
}

std::vector<std::string> columns_of(std::vector<plan_page_step> const& steps)
{
  std::vector<std::string> columns;
  for (auto const& each :
       markup::named(markup::parse(ballast::detail::step_table(steps, 9)), "th")) {
    if (each.attributes.at("scope") == "col") { columns.push_back(each.text); }
  }
  return columns;
}

TEST(PlanPageStep, ShowsMeansAndWorstCasesOfTheExchanges)
{
  auto steps = two_steps();
  auto figures = ballast::detail::exchange_figures(steps);
  std::vector<std::string> shown;
  for (auto const& each : figures) { shown.push_back(each.value); }
  EXPECT_THAT(shown, ElementsAre("3\u00A0MB", "38\u00A0%", "3.5", "3\u00A0ms"));
  EXPECT_THAT(figures[0].hint, HasSubstr("more than 9\u00A0MB"));
  EXPECT_THAT(figures[2].hint, HasSubstr("more than 7 in"));
  EXPECT_THAT(figures[3].hint, Not(HasSubstr("computes")));

  steps[0].compute_seconds = 0.1;
  steps[1].compute_seconds = 0.3;
  figures = ballast::detail::exchange_figures(steps);
  EXPECT_THAT(figures[3].hint, HasSubstr("The busiest GPU computes for 200\u00A0ms."));
  EXPECT_TRUE(ballast::detail::exchange_figures({}).empty());
}

TEST(PlanPageStep, HasAColumnForTheExchangeWhereThereIsOne)
{
  EXPECT_EQ(columns_of(two_steps()).back(), "Exchange");
  EXPECT_EQ(columns_of(std::vector<plan_page_step>(1)).back(), "Plan time");
  EXPECT_EQ(columns_of({}).back(), "Plan time");
  EXPECT_THAT(ballast::detail::step_table(two_steps(), 1), HasSubstr("<td>2\u00A0ms</td></tr>"));
}

}  // namespace
