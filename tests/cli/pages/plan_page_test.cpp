// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/plan_page.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace {

using ballast::rank_id;
using pages::plan_page;
using pages::plan_page_data;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

plan_page_data two_gpus()
{
  // [page]
  pages::plan_page_data data;
  data.title = "Two GPUs";
  data.unit = "s";
  data.steps = {{.samples = 3,
                 .length = 9000,
                 .before = {.heaviest = 0.9, .lightest = 0.1, .mean = 0.5},
                 .after = {.heaviest = 0.6, .lightest = 0.4, .mean = 0.5},
                 .gap = 0.2,
                 .plan_seconds = 31e-6}};
  data.gpus = 2;
  data.timeline_before = {{rank_id{0}, 0, 0.6, "sample 0"},
                          {rank_id{0}, 0.6, 0.3, "sample 1"},
                          {rank_id{1}, 0, 0.1, "sample 2"}};
  data.timeline_after = {{rank_id{0}, 0, 0.6, "sample 0"},
                         {rank_id{1}, 0, 0.3, "sample 1"},
                         {rank_id{1}, 0.3, 0.1, "sample 2"}};
  data.lengths = {{1000, 1999, 1}, {2000, 3999, 1}, {4000, 7999, 1}};
  data.length_work = {0.1, 0.3, 0.6};
  data.cost_model = {{0, 0, 0}, {3000, 0.25, 0.05}, {5000, 0.42, 0.18}};
  data.settings = {{"Trace", "example.csv"}, {"Policy", "greedy_knapsack"}};
  std::string const page = pages::plan_page(data);  // and write_file("plan.html", page)
  // [page]
  EXPECT_FALSE(page.empty());
  return data;
}

TEST(PlanPage, ShowsTheBagsThatWereJudged)  // Ensures (1)
{
  plan_page_data data = two_gpus();
  data.judged = {{"g2n1", 0.002, 0.004}, {"g1n2", 0.003, 0.005}};
  auto const elements = markup::parse(plan_page(data));
  EXPECT_THAT(markup::texts(markup::named(elements, "h2")),
              ElementsAre("Work per GPU", "Step timeline", "Sample lengths", "Cost of a sample",
                          "Bags", "Steps", "Settings"));
  EXPECT_THAT(markup::texts(markup::named(elements, "th")), Contains("g1n2"));
}

TEST(PlanPage, ShowsTheBytesMovedWhereTheyAreKnown)  // Ensures (1)
{
  plan_page_data data = two_gpus();
  ballast::exchange_cost exchange{.bytes_mean = 3e6, .seconds = 2e-3};
  data.steps.front().exchange = exchange;
  data.steps.front().compute_seconds = 0.6;
  data.computed = "the forward pass";
  data.bytes_per_token = 6144;
  data.moved.ranks.resize(2);
  data.moved.ranks[0].sent = {.within_node = 0, .between_nodes = 1000, .messages = 1};
  data.moved.ranks[1].received = {.within_node = 0, .between_nodes = 1000, .messages = 1};
  std::string const page = plan_page(data);
  auto const elements = markup::parse(page);
  EXPECT_THAT(markup::texts(markup::named(elements, "h2")),
              ElementsAre("Work per GPU", "Step timeline", "Bytes moved", "Sample lengths",
                          "Cost of a sample", "Steps", "Settings"));
  EXPECT_EQ(markup::named(elements, "svg").size(), 5U);
  EXPECT_THAT(markup::texts(markup::having_class(elements, "value")), Contains("3\u00A0MB"));
  EXPECT_THAT(page, HasSubstr("an array of 6.14\u00A0kB per token"));
  EXPECT_THAT(page, HasSubstr("computes for 600\u00A0ms: the forward pass."));
  EXPECT_THAT(page, HasSubstr("with 2 GPUs."));
  EXPECT_THAT(markup::texts(markup::named(elements, "title")),
              Contains(HasSubstr("GPU 1 receives")));
}

TEST(PlanPage, UsesOnlyClassesThatHaveAStyle)
{
  std::string const page = plan_page(two_gpus());
  std::set<std::string> used;
  for (auto const& each : markup::parse(page)) {
    for (std::string const& name : each.classes()) { used.insert(name); }
  }
  EXPECT_GT(used.size(), 20U);
  std::string const style = page.substr(0, page.find("</style>"));
  for (std::string const& name : used) {
    EXPECT_THAT(style, AnyOf(HasSubstr("." + name + " "), HasSubstr("." + name + ","))) << name;
  }
}

TEST(PlanPage, SaysInWordsWhatThePlanGains)
{
  auto const elements = markup::parse(plan_page(two_gpus()));
  EXPECT_EQ(
      markup::having_class(elements, "lead").front().text,
      "Every step computes for as long as its busiest GPU. As the data came, that GPU had 1.80 "
      "times the mean work; with this plan it has 1.20 times, so computing takes 33\u00A0% less "
      "time.");
}

TEST(PlanPage, ShowsFiguresOfAllSteps)
{
  plan_page_data data = two_gpus();
  data.steps.push_back(data.steps.front());
  data.steps.back().before = {.heaviest = 2.0, .lightest = 1.0, .mean = 1.25};  // ratios 1.6 and 2
  data.steps.back().gap = 0.00012301;
  data.steps.back().plan_seconds = 33e-6;
  auto const elements = markup::parse(plan_page(data));
  EXPECT_THAT(markup::texts(markup::named(elements, "span")),
              ElementsAre("1.70 \u2192", "5.50 \u2192", "41\u00A0% \u2192"));
  EXPECT_THAT(
      markup::texts(markup::having_class(elements, "value")),
      ElementsAre(" 1.20", " 1.50", " 17\u00A0%", "\u2264\u00A020\u00A0%", "32\u00A0\u00B5s"));
  // A certified bound is never rounded down.
  EXPECT_THAT(markup::texts(markup::named(elements, "td")), Contains("\u2264\u00A00.013\u00A0%"));
}

TEST(PlanPage, ShowsAnIdleGpuAsInfiniteImbalance)
{
  plan_page_data data = two_gpus();
  data.steps.front().before.lightest = 0;
  auto const elements = markup::parse(plan_page(data));
  EXPECT_EQ(markup::named(elements, "span").at(1).text, "\u221E \u2192");
}

TEST(PlanPage, EscapesWhatUsersSupply)
{
  std::string const hostile = "<script>\"'&";
  plan_page_data data = two_gpus();
  data.title = hostile;
  data.settings = {{hostile, hostile}};
  data.unit = hostile;
  data.timeline_after.front().label = hostile;
  data.length_marks = {{3000, hostile}};
  auto const elements = markup::parse(plan_page(data));
  EXPECT_TRUE(markup::named(elements, "script").empty());
  EXPECT_THAT(markup::texts(markup::named(elements, "title")),
              Contains(HasSubstr("GPU 0, " + hostile)));
}

TEST(PlanPage, IsWellFormedWithoutData)
{
  auto const elements = markup::parse(plan_page({}));
  EXPECT_EQ(markup::named(elements, "svg").size(), 4U);
  EXPECT_EQ(markup::having_class(elements, "lead").front().text, "No step was planned.");
}

TEST(PlanPage, IsWellFormedForOneGpuWithoutWork)
{
  plan_page_data data;
  data.steps.resize(1);
  data.gpus = 1;
  std::string const page = plan_page(data);
  EXPECT_NO_THROW((void)markup::parse(page));
  EXPECT_THAT(page, HasSubstr("no less time"));
}

TEST(PlanPage, StaysSmallForManyGpusSamplesAndSteps)
{
  plan_page_data data;
  data.steps.resize(5000);
  data.gpus = 4096;
  for (std::size_t gpu = 0; gpu < 4096; ++gpu) {
    for (int sample = 0; sample < 20; ++sample) {
      data.timeline_before.push_back(
          {ballast::to_id<rank_id>(gpu), sample * 0.05, 0.05, "a sample"});
    }
  }
  data.timeline_after = data.timeline_before;
  std::string const page = plan_page(data);
  EXPECT_LT(page.size(), 600'000U);
  EXPECT_THAT(page, HasSubstr("The first 100 of 5\u202F000 steps."));
  EXPECT_THAT(page, HasSubstr("Shown are 64 of 4\u202F096 GPUs"));
}

}  // namespace
