// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/histogram_chart.hpp>

#include "markup.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using ballast::histogram_bin;
using ballast::histogram_chart;

// The bars without the legend's swatch, which has no tooltip and comes first.
std::vector<markup::element> bars(std::string const& chart)
{
  auto found = markup::having_class(markup::named(markup::parse(chart), "rect"), "samples");
  found.erase(found.begin());
  return found;
}

std::vector<histogram_bin> const bins = {{64, 128, 30, 1}, {128, 256, 0, 0}, {256, 512, 10, 7}};

TEST(HistogramChart, DrawsSharesInProportion)  // Ensures (1)
{
  // The work's 87.5 % is the highest share, so that 1 % is 216 / (1.06 * 87.5) units high.
  double const percent = 216 / (1.06 * 87.5);
  auto const drawn = bars(histogram_chart(bins));
  ASSERT_EQ(drawn.size(), 3U);
  EXPECT_NEAR(drawn[0].number("height"), 75 * percent, 0.0051);
  EXPECT_EQ(drawn[1].number("height"), 0);
  EXPECT_NEAR(drawn[2].number("height"), 25 * percent, 0.0051);

  auto const lines = markup::named(markup::parse(histogram_chart(bins)), "polyline");
  ASSERT_EQ(lines.size(), 1U);
  std::string const points = lines.front().attributes.at("points");
  double const last_y = std::stod(points.substr(points.rfind(',') + 1));
  EXPECT_NEAR(56 + 216 - last_y, 87.5 * percent, 0.0051);
}

TEST(HistogramChart, GivesEqualRatiosOfLengthEqualWidths)
{
  auto const drawn = bars(histogram_chart(bins));
  EXPECT_NEAR(drawn[0].number("width"), 856 / 3.0 - 2, 0.0051);
  EXPECT_NEAR(drawn[2].number("width"), 856 / 3.0 - 2, 0.0051);
}

TEST(HistogramChart, SaysWhatABarStandsFor)
{
  auto const titles = markup::named(markup::parse(histogram_chart(bins)), "title");
  EXPECT_EQ(titles.front().text, "64 to 127 tokens: 30 samples (75.0 %), 12.5 % of the work");
}

TEST(HistogramChart, HasNoLineWhereWorkIsUnknown)  // Ensures (2)
{
  auto const elements = markup::parse(histogram_chart(std::vector<histogram_bin>{{1, 2, 3, 0}}));
  EXPECT_TRUE(markup::having_class(elements, "work").empty());
}

TEST(HistogramChart, ShowsSamplesOfLengthZero)
{
  auto const drawn = bars(histogram_chart(std::vector<histogram_bin>{{0, 1, 5, 0}, {1, 20, 5, 0}}));
  EXPECT_GT(drawn[0].number("width"), 10);
  EXPECT_GE(drawn[0].number("x"), 76);
}

TEST(HistogramChart, IsDrawnWithoutSamples)
{
  EXPECT_NO_THROW((void)markup::parse(histogram_chart({})));
  EXPECT_NO_THROW((void)markup::parse(histogram_chart(std::vector<histogram_bin>{{4, 5, 0, 0}})));
}

TEST(HistogramChartDeathTest, RefusesAnEmptyBin)
{
  EXPECT_DEATH((void)histogram_chart(std::vector<histogram_bin>{{4, 4, 1, 0}}),
               "bin.low < bin.high");
}

}  // namespace
