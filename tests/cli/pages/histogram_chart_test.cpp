// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/histogram_chart.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace {

using ballast::length_bin;
using pages::histogram_chart;

// The bars without the legend's swatch, which has no tooltip and comes first.
std::vector<markup::element> bars(std::string const& chart)
{
  auto found = markup::having_class(markup::named(markup::parse(chart), "rect"), "samples");
  found.erase(found.begin());
  return found;
}

std::vector<length_bin> const bins = {{64, 127, 30}, {128, 255, 0}, {256, 511, 10}};
std::vector<double> const work = {1, 0, 7};

TEST(HistogramChart, DrawsSharesInProportion)  // Ensures (1)
{
  // The work's 87.5 % is the highest share, so that 1 % is 216 / (1.06 * 87.5) units high.
  double const percent = 216 / (1.06 * 87.5);
  auto const drawn = bars(histogram_chart(bins, work));
  ASSERT_EQ(drawn.size(), 3U);
  EXPECT_NEAR(drawn[0].number("height"), 75 * percent, 0.0051);
  EXPECT_EQ(drawn[1].number("height"), 0);
  EXPECT_NEAR(drawn[2].number("height"), 25 * percent, 0.0051);

  auto const lines = markup::named(markup::parse(histogram_chart(bins, work)), "polyline");
  ASSERT_EQ(lines.size(), 1U);
  std::string const points = lines.front().attributes.at("points");
  double const last_y = std::stod(points.substr(points.rfind(',') + 1));
  EXPECT_NEAR(56 + 216 - last_y, 87.5 * percent, 0.0051);
}

TEST(HistogramChart, SaysWhatABarStandsFor)
{
  auto const titles = markup::named(markup::parse(histogram_chart(bins, work)), "title");
  EXPECT_EQ(titles.front().text, "64 to 127 tokens: 30 samples (75.0 %), 12.5 % of the work");
}

TEST(HistogramChart, HasNoLineWhereWorkIsUnknown)  // Ensures (2)
{
  auto const elements = markup::parse(histogram_chart(std::vector<length_bin>{{1, 1, 3}}));
  EXPECT_TRUE(markup::having_class(elements, "work").empty());
}

TEST(HistogramChart, ShowsSamplesOfLengthZero)
{
  auto const drawn = bars(histogram_chart(std::vector<length_bin>{{0, 0, 5}, {1, 19, 5}}));
  EXPECT_GT(drawn[0].number("width"), 10);
  EXPECT_GE(drawn[0].number("x"), 76);
}

TEST(HistogramChart, IsDrawnWithoutSamples)
{
  EXPECT_NO_THROW((void)markup::parse(histogram_chart({})));
  EXPECT_NO_THROW((void)markup::parse(histogram_chart(std::vector<length_bin>{{4, 4, 0}})));
}

TEST(HistogramChart, NamesDifferentLengthsWhereAllAreAlike)
{
  auto const chart = markup::parse(histogram_chart(std::vector<length_bin>{{1000, 1000, 7}}));
  std::set<std::string> seen;
  for (auto const& text : markup::having_class(chart, "tick")) {
    EXPECT_TRUE(seen.insert(text.text).second) << "twice: " << text.text;
  }
  EXPECT_GE(seen.size(), 4U);
}

}  // namespace
