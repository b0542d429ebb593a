// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/pipeline_chart.hpp>

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::pass;
using ballast::pipeline_rank;
using ballast::stage_id;
using ballast::report::pipeline_bar;
using ballast::report::pipeline_chart;
using testing::HasSubstr;

constexpr double plot_left = 76;
constexpr double plot_width = 856;

// Two ranks: 10 units as given, 8 as ordered.
std::vector<pipeline_bar> const given = {
    {pipeline_rank{0}, stage_id{0}, microbatch_id{7}, pass::forward, 0, 2},
    {pipeline_rank{0}, stage_id{0}, microbatch_id{7}, pass::backward, 8, 2},
    {pipeline_rank{1}, stage_id{1}, microbatch_id{7}, pass::forward, 2, 4}};
std::vector<pipeline_bar> const ordered = {
    {pipeline_rank{0}, stage_id{0}, microbatch_id{7}, pass::forward, 0, 8},
    {pipeline_rank{1}, stage_id{1}, microbatch_id{7}, pass::forward, 0, 8}};

TEST(PipelineChart, SharesOneTimeScale)  // Ensures (1)
{
  auto const elements = markup::parse(pipeline_chart(given, ordered, 2, "s"));
  auto const light = markup::having_class(elements, "before");
  auto const strong = markup::having_class(elements, "tone-3");
  auto const after = markup::having_class(elements, "after");
  ASSERT_EQ(light.size(), 2U);
  ASSERT_EQ(strong.size(), 1U);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(light[0].number("x"), plot_left);
  EXPECT_NEAR(light[0].number("width"), 0.2 * plot_width, 0.0051);
  EXPECT_NEAR(light[1].number("x"), plot_left + 0.2 * plot_width, 0.0051);
  EXPECT_NEAR(strong[0].number("x"), plot_left + 0.8 * plot_width, 0.0051);
  EXPECT_NEAR(after[1].number("width"), 0.8 * plot_width, 0.0051);
  EXPECT_GT(light[1].number("y"), light[0].number("y"));
  EXPECT_GT(after[0].number("y"), light[1].number("y"));
}

TEST(PipelineChart, TellsForwardsFromBackwardsAndNamesMicrobatches)
{
  auto const elements = markup::parse(pipeline_chart(given, ordered, 2, "s"));
  EXPECT_TRUE(markup::having_class(elements, "before")[0].has_class("tone-0"));
  EXPECT_EQ(markup::having_class(elements, "inside").size(), 5U);
  EXPECT_EQ(markup::having_class(elements, "on-ink").size(), 1U);
  for (auto const& label : markup::having_class(elements, "inside")) { EXPECT_EQ(label.text, "7"); }
  EXPECT_THAT(markup::texts(markup::named(elements, "title")),
              testing::Contains("rank 0, stage 0, backward of microbatch 7: 2\u00A0s"));
}

TEST(PipelineChart, ShowsWaitingUntilTheStepEnds)
{
  std::string const chart = pipeline_chart(given, ordered, 3, "s");
  auto const waiting = markup::having_class(markup::parse(chart), "waiting");
  ASSERT_EQ(waiting.size(), 6U);
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_NEAR(waiting[row].number("width"), plot_width, 0.0051);
    EXPECT_NEAR(waiting[3 + row].number("width"), 0.8 * plot_width, 0.0051);
  }
  // 8 of 30 and 16 of 24 units of time are computed.
  EXPECT_THAT(chart, HasSubstr("takes 10\u00A0s, and ranks wait for 73\u00A0% of it"));
  EXPECT_THAT(chart, HasSubstr("takes 8\u00A0s, and ranks wait for 33\u00A0% of it"));
}

TEST(PipelineChart, MarksTheBound)  // Ensures (2)
{
  auto const marks =
      markup::having_class(markup::parse(pipeline_chart(given, ordered, 2, "", 5)), "mark");
  ASSERT_EQ(marks.size(), 2U);
  for (auto const& mark : marks) {
    EXPECT_NEAR(mark.number("x1"), plot_left + 0.5 * plot_width, 0.0051);
  }
  EXPECT_TRUE(
      markup::having_class(markup::parse(pipeline_chart(given, ordered, 2, "")), "mark").empty());
}

TEST(PipelineChart, DoesNotGrowWithRanksAndMicrobatches)
{
  std::vector<pipeline_bar> many;
  for (std::size_t rank = 0; rank < 100; ++rank) {
    for (std::size_t task = 0; task < 4000; ++task) {
      many.push_back({ballast::to_id<pipeline_rank>(rank), ballast::to_id<stage_id>(rank),
                      ballast::to_id<microbatch_id>(task), pass::forward, static_cast<double>(task),
                      1});
    }
  }
  std::string const chart = pipeline_chart(many, many, 100, "");
  auto const elements = markup::parse(chart);
  auto const names = markup::texts(markup::having_class(elements, "end"));
  EXPECT_EQ(names.size(), 64U);
  EXPECT_EQ(names.front(), "rank 0");
  EXPECT_EQ(names[31], "rank 99");
  auto const bars = markup::having_class(elements, "before");
  EXPECT_LE(bars.size(), 32 * (2 * plot_width / 1.5 + 1));
  EXPECT_THAT(chart, HasSubstr(" tasks: "));
  EXPECT_TRUE(markup::having_class(elements, "inside").empty());
}

TEST(PipelineChart, IsDrawnWithoutRanksBarsAndTime)
{
  EXPECT_NO_THROW((void)markup::parse(pipeline_chart({}, {}, 0, "s")));
  EXPECT_NO_THROW((void)markup::parse(pipeline_chart({}, {}, 4, "")));
  std::vector<pipeline_bar> const nothing = {{}};
  EXPECT_THAT(pipeline_chart(nothing, nothing, 1, "s"),
              HasSubstr("takes 0, and ranks wait for 0\u00A0% of it"));
}

TEST(PipelineChartDeathTest, RefusesARankThatDoesNotExist)
{
  EXPECT_DEATH((void)pipeline_chart(given, ordered, 1, "s"), "bar .* is on rank 1 of 1");
}

}  // namespace
