// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/cost_chart.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using pages::cost_chart;
using pages::cost_point;
using pages::length_mark;
using pages::measured_cost;

struct corner {
  double x;
  double y;
};

std::vector<corner> corners(markup::element const& shape)
{
  std::vector<corner> found;
  std::string const points = shape.attributes.at("points");
  for (std::size_t at = 0; at < points.size();) {
    std::size_t const comma = points.find(',', at);
    std::size_t const end = std::min(points.find(' ', comma), points.size());
    found.push_back({std::stod(points.substr(at)), std::stod(points.substr(comma + 1))});
    at = end + 1;
  }
  return found;
}

std::vector<cost_point> const model = {{0, 0, 0}, {100, 10, 5}, {200, 20, 20}};

// Where the chart must put a point: the longest of all is 200, the highest 40.
corner expected(double length, double cost)
{
  return {76 + 856 * length / 200, 56 + 216 * (1 - cost / (1.06 * 40))};
}

TEST(CostChart, StacksAttentionOnDenseLayers)  // Ensures (1)
{
  auto const shapes = markup::named(markup::parse(cost_chart(model, {}, {}, "s")), "polygon");
  ASSERT_EQ(shapes.size(), 2U);
  auto const dense = corners(shapes[0]);
  auto const attention = corners(shapes[1]);
  ASSERT_EQ(dense.size(), 5U);
  ASSERT_EQ(attention.size(), 6U);
  for (std::size_t point = 0; point < model.size(); ++point) {
    auto const length = static_cast<double>(model[point].length);
    corner const lower = expected(length, model[point].linear);
    corner const upper = expected(length, model[point].linear + model[point].quadratic);
    EXPECT_NEAR(dense[point].x, lower.x, 0.0051);
    EXPECT_NEAR(dense[point].y, lower.y, 0.0051);
    EXPECT_NEAR(attention[point].y, upper.y, 0.0051);
    EXPECT_EQ(attention[5 - point].y, dense[point].y);
  }
}

TEST(CostChart, ShowsMeasurementsAndMarksBeyondTheModel)  // Ensures (2)
{
  std::vector<measured_cost> const measured = {{400, 90}};
  std::vector<length_mark> const marks = {{50, "shortest"}, {60, "median"}, {500, "longest"}};
  auto const elements = markup::parse(cost_chart(model, measured, marks, "s"));
  auto const point = markup::named(elements, "circle").front();
  EXPECT_LE(point.number("cx"), 76 + 856);
  EXPECT_GE(point.number("cy"), 56);
  auto const lines = markup::having_class(elements, "mark");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines.back().number("x1"), 76 + 856);
}

TEST(CostChart, PutsCloseMarksUnderEachOther)
{
  std::vector<length_mark> const marks = {{50, "shortest"}, {51, "median"}, {190, "longest"}};
  auto const texts = markup::having_class(markup::parse(cost_chart(model, {}, marks, "s")), "halo");
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(texts[1].text, "median 51");
  EXPECT_GE(texts[1].number("y"), texts[0].number("y") + 12);
  EXPECT_EQ(texts[2].number("y"), texts[0].number("y"));
  EXPECT_TRUE(texts[2].has_class("end"));
}

TEST(CostChart, IsDrawnWithoutAModelAndWithoutCosts)
{
  EXPECT_NO_THROW((void)markup::parse(cost_chart({}, {}, {}, "s")));
  EXPECT_NO_THROW((void)markup::parse(cost_chart(std::vector<cost_point>{{}}, {}, {}, "")));
}

}  // namespace
