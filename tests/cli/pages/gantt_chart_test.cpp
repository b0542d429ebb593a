// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/gantt_chart.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using ballast::rank_id;
using pages::gantt_bar;
using pages::gantt_chart;
using testing::HasSubstr;

std::vector<gantt_bar> const bars_before = {{rank_id{1}, 0, 10, "sample 1"},
                                            {rank_id{0}, 2, 1, "sample 2"},
                                            {rank_id{0}, 0, 2, "sample 0"}};
std::vector<gantt_bar> const bars_after = {{rank_id{0}, 0, 4, "sample 0"},
                                           {rank_id{1}, 0, 5, "<b>"}};

TEST(GanttChart, SharesOneTimeScale)  // Ensures (1)
{
  auto const elements = markup::parse(gantt_chart(bars_before, bars_after, 2, "s"));
  auto const left = markup::having_class(elements, "before");
  auto const right = markup::having_class(elements, "after");
  ASSERT_EQ(left.size(), 3U);
  ASSERT_EQ(right.size(), 2U);
  EXPECT_EQ(left[0].number("x"), 76);
  EXPECT_NEAR(left[0].number("width"), 0.2 * 392, 0.0051);
  EXPECT_NEAR(left[1].number("x"), 76 + 0.2 * 392, 0.0051);
  EXPECT_NEAR(left[2].number("width"), 392, 0.0051);
  EXPECT_NEAR(right[1].number("width"), 0.5 * 392, 0.0051);
}

TEST(GanttChart, ShowsWaitingUntilTheLastGpuIsDone)
{
  auto const waiting =
      markup::having_class(markup::parse(gantt_chart(bars_before, bars_after, 3, "s")), "waiting");
  ASSERT_EQ(waiting.size(), 6U);  // the third GPU has no bars and waits all the time
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_NEAR(waiting[row].number("width"), 392, 0.0051);
    EXPECT_NEAR(waiting[3 + row].number("width"), 196, 0.0051);
  }
}

TEST(GanttChart, SaysWhatABarStandsForAndHowLongItIs)
{
  auto const elements = markup::parse(gantt_chart(bars_before, bars_after, 2, "s"));
  EXPECT_THAT(markup::named(elements, "title").back().text, HasSubstr("GPU 1, <b>: 5\u00A0s"));
  auto const bars = markup::having_class(elements, "before");
  EXPECT_TRUE(bars[1].has_class("tone-0"));
  EXPECT_TRUE(bars[2].has_class("tone-3"));
}

TEST(GanttChart, DrawsThinNeighboursAsOne)
{
  std::vector<gantt_bar> thin;
  for (int sample = 0; sample < 10'000; ++sample) {
    thin.push_back({rank_id{0}, sample * 1.0, 1, "sample"});
  }
  std::string const chart = gantt_chart(thin, thin, 1, "s");
  auto const bars = markup::having_class(markup::parse(chart), "before");
  EXPECT_LE(bars.size(), 2 * 392 / 0.8 + 1);
  double covered = 0;
  for (auto const& bar : bars) { covered += bar.number("width"); }
  EXPECT_NEAR(covered, 392, 0.01 * static_cast<double>(bars.size()));
  EXPECT_THAT(chart, HasSubstr("bars: "));
}

TEST(GanttChart, ShowsTheBusiestOfManyGpus)  // Ensures (2)
{
  std::vector<gantt_bar> many;
  for (std::size_t gpu = 0; gpu < 1024; ++gpu) {
    many.push_back(
        {ballast::to_id<rank_id>(gpu), 0, 1 + static_cast<double>(gpu * 389 % 1024), ""});
  }
  auto const elements = markup::parse(gantt_chart(many, many, many.size(), "s"));
  auto const bars = markup::having_class(elements, "before");
  ASSERT_EQ(bars.size(), 64U);
  EXPECT_NEAR(bars.front().number("width"), 392, 0.0051);
  EXPECT_NEAR(bars.back().number("width"), 392 / 1024.0, 0.0051);
  for (std::size_t row = 1; row < bars.size(); ++row) {
    EXPECT_LT(bars[row].number("width"), bars[row - 1].number("width"));
  }
}

TEST(GanttChart, IsDrawnWithoutGpusBarsAndWork)
{
  EXPECT_NO_THROW((void)markup::parse(gantt_chart({}, {}, 0, "s")));
  EXPECT_NO_THROW((void)markup::parse(gantt_chart({}, {}, 4, "s")));
  std::vector<gantt_bar> const nothing = {{rank_id{0}, 0, 0, "empty sample"}};
  EXPECT_NO_THROW((void)markup::parse(gantt_chart(nothing, nothing, 1, "s")));
}

}  // namespace
