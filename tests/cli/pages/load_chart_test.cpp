// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/load_chart.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using pages::load_chart;
using gpu_loads = std::vector<double>;
using testing::HasSubstr;

std::vector<markup::element> bars(std::string const& chart, char const* css_class)
{
  return markup::having_class(markup::named(markup::parse(chart), "rect"), css_class);
}

RC_GTEST_PROP(LoadChart, DrawsOneBarPerGpuInProportionToItsLoad, ())  // Ensures (1) (2)
{
  auto const draw = rc::gen::container<gpu_loads>(
      rc::gen::map(rc::gen::inRange(0, 1000), [](int load) { return load * 0.37; }));
  gpu_loads before = *draw;
  gpu_loads after = *draw;
  before.resize(std::clamp<std::size_t>(before.size(), 1, 128), 1.0);
  after.resize(std::clamp<std::size_t>(after.size(), 1, 128), 1.0);
  std::string const chart = load_chart(before, after, "s");

  double const highest = std::max(std::ranges::max(before), std::ranges::max(after));
  for (auto const& [values, css_class] : {std::pair{before, "before"}, std::pair{after, "after"}}) {
    auto const drawn = bars(chart, css_class);
    RC_ASSERT(drawn.size() == values.size());
    for (std::size_t gpu = 0; gpu < values.size(); ++gpu) {
      double const expected = highest > 0 ? 216 / 1.06 * values[gpu] / highest : 0;
      RC_ASSERT(std::abs(drawn[gpu].number("height") - expected) <= 0.0051);
    }
  }
}

TEST(LoadChart, SaysWhatABarStandsFor)
{
  std::string const chart = load_chart(gpu_loads{3, 1}, gpu_loads{2, 2}, "s");
  auto const elements = markup::parse(chart);
  EXPECT_EQ(elements.front().attributes.at("aria-label"),
            "Work per GPU before and after balancing: the busiest has 1.50 times the mean, then "
            "1.000 times the mean");
  EXPECT_EQ(markup::named(elements, "title").front().text, "GPU 0: 3\u00A0s, 1.50 \u00D7 the mean");
}

TEST(LoadChart, CountsAFastGpuAsOftenInTheMeanAsItIsFast)
{
  // Work of 4 and 4 at speeds 1 and 4 takes 4 and 1; evenly it would take 8 / 5.
  std::string const chart =
      load_chart(gpu_loads{4, 1}, gpu_loads{2, 2}, "s", {.before = {1, 4}, .after = {1, 4}});
  auto const elements = markup::parse(chart);
  EXPECT_EQ(elements.front().attributes.at("aria-label"),
            "Work per GPU before and after balancing: the busiest has 2.50 times the mean, then "
            "1.000 times the mean");
  EXPECT_EQ(markup::named(elements, "title").front().text, "GPU 0: 4\u00A0s, 2.50 \u00D7 the mean");
  EXPECT_EQ(load_chart(gpu_loads{4, 1}, gpu_loads{2, 2}, "s", {.before = {3, 3}, .after = {3, 3}}),
            load_chart(gpu_loads{4, 1}, gpu_loads{2, 2}, "s"));
}

TEST(LoadChart, DrawsMoreThan128GpusAsASortedArea)
{
  gpu_loads values(1024);
  for (std::size_t gpu = 0; gpu < values.size(); ++gpu) {
    values[gpu] = static_cast<double>(gpu * 37 % 1024);
  }
  std::string const chart = load_chart(values, gpu_loads(128, 1.0), "");
  EXPECT_TRUE(bars(chart, "before").empty());
  EXPECT_EQ(bars(chart, "after").size(), 128U);
  auto const areas = markup::named(markup::parse(chart), "polygon");
  ASSERT_EQ(areas.size(), 1U);

  std::vector<double> heights;  // y of each corner: from the base line up, then only down again
  std::string const points = areas.front().attributes.at("points");
  for (std::size_t comma = points.find(','); comma != points.npos;
       comma = points.find(',', comma + 1)) {
    heights.push_back(std::stod(points.substr(comma + 1)));
  }
  EXPECT_TRUE(std::is_sorted(heights.begin() + 1, heights.end()));
  EXPECT_NEAR(heights[1], heights[0] - 216 / 1.06, 0.0101);
}

TEST(LoadChart, IsDrawnWithoutGpusAndWithoutWork)
{
  EXPECT_NO_THROW((void)markup::parse(load_chart({}, {}, "s")));
  for (auto const& bar : bars(load_chart(gpu_loads{0, 0}, gpu_loads{0, 0}, "s"), "before")) {
    EXPECT_EQ(bar.number("height"), 0);
  }
}

}  // namespace
