// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/pipeline_chart.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::pass;
using pages::pipeline_bar;

TEST(PipelineBars, AreTheTasksOfEveryRankInOrder)  // Ensures (1)
{
  auto const stages = ballast::chain_of_stages(2, 2);
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 2).value();
  ballast::pipeline_times times(2, 2);
  times.rows = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
  std::vector const order = {microbatch_id{1}, microbatch_id{0}};
  auto const bars =
      pages::pipeline_bars(schedule, ballast::simulate(schedule, times, order), order, 0.5);
  // Rank 0: F1 0-5, F0 5-6, B1 20-26, B0 27-29. Rank 1: F1 5-12, B1 12-20, F0 20-23, B0 23-27.
  struct expected {
    unsigned rank, microbatch;
    pass kind;
    double start, end;
  };
  std::vector<expected> const all = {
      {0, 1, pass::forward, 0, 5},    {0, 0, pass::forward, 5, 6},   {0, 1, pass::backward, 20, 26},
      {0, 0, pass::backward, 27, 29}, {1, 1, pass::forward, 5, 12},  {1, 1, pass::backward, 12, 20},
      {1, 0, pass::forward, 20, 23},  {1, 0, pass::backward, 23, 27}};
  ASSERT_EQ(bars.size(), all.size());
  for (std::size_t at = 0; at < all.size(); ++at) {
    pipeline_bar const& bar = bars[at];
    EXPECT_EQ(to_index(bar.rank), all[at].rank) << at;
    EXPECT_EQ(to_index(bar.stage), all[at].rank) << at;
    EXPECT_EQ(to_index(bar.microbatch), all[at].microbatch) << at;
    EXPECT_EQ(bar.pass, all[at].kind) << at;
    EXPECT_EQ(bar.start, all[at].start / 2) << at;
    EXPECT_EQ(bar.start + bar.duration, all[at].end / 2) << at;
  }
}

using ballast::microbatch_id;
using ballast::pass;
using ballast::pipeline_rank;
using ballast::stage_id;
using pages::pipeline_bar;
using pages::pipeline_chart;
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

TEST(PipelineChart, NamesTheUnitOfTimes)
{
  using testing::Contains;
  auto const texts = [](char const* unit) {
    return markup::texts(
        markup::named(markup::parse(pipeline_chart(given, ordered, 2, unit)), "text"));
  };
  EXPECT_THAT(texts(""), Contains("from the start of the step, in the unit of the times").Times(2));
  EXPECT_THAT(texts("s"), Contains("from the start of the step").Times(2));
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

}  // namespace
