// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/svg.hpp"  // first: proves it is self-contained

#include "../../../examples/ballast/pages/chart_style.hpp"
#include "markup.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using pages::svg_drawing;

svg_drawing drawing_of_everything()
{
  svg_drawing drawing(320, 80.5, "loads of \"A\" & B");
  std::vector<svg_drawing::point> const corners = {{0, 0}, {10, 2.25}, {20.005, 0}};
  drawing.rectangle({1, 2, 3, 4}, "before", "GPU <0>");
  drawing.rectangle({1, 2, 3, 4}, "waiting");
  drawing.circle({5, 5}, 3, "measured", "7 s");
  drawing.line({0, 0}, {-1.5, 9}, "grid");
  drawing.polyline(corners, "work");
  drawing.polygon(corners, "after", "all of it");
  drawing.text({4, 4}, "tick end", "5 < 7");
  return drawing;
}

TEST(SvgDrawing, IsOneWellFormedElementWithADescription)  // Ensures (1)
{
  auto const elements = markup::parse(drawing_of_everything().markup());
  EXPECT_EQ(elements.front().name, "svg");
  EXPECT_EQ(elements.front().attributes.at("role"), "img");
  EXPECT_EQ(elements.front().attributes.at("aria-label"), "loads of \"A\" & B");
  EXPECT_EQ(elements.front().attributes.at("viewBox"), "0 0 320 80.5");
}

TEST(SvgDrawing, EscapesTextAndTooltips)  // Ensures (2)
{
  auto const elements = markup::parse(drawing_of_everything().markup());
  EXPECT_EQ(markup::named(elements, "title").front().text, "GPU <0>");
  EXPECT_EQ(markup::named(elements, "text").front().text, "5 < 7");
}

TEST(SvgDrawing, TellsTheRightPanelOfAPairFromTheLeftOne)
{
  auto drawing = svg_drawing::of_pair(960, 80, "before, after", 450);
  drawing.text({4, 4}, "tick", "left");
  drawing.begin_right();
  drawing.text({454, 4}, "tick", "right");
  auto const elements = markup::parse(drawing.markup());
  EXPECT_EQ(elements.front().attributes.at("style"), "--beside: 450; --tall: 80");
  std::vector<std::string> names;
  for (auto const& each : elements) { names.push_back(each.name); }
  EXPECT_EQ(names, (std::vector<std::string>{"svg", "text", "g", "text"}));
}

TEST(SvgDrawing, WritesPathsAsPoints)
{
  auto const elements = markup::parse(drawing_of_everything().markup());
  EXPECT_EQ(markup::named(elements, "polyline").front().attributes.at("points"),
            "0,0 10,2.25 20.01,0");
}

RC_GTEST_PROP(SvgDrawing, RoundsCoordinatesToHundredths, ())  // Ensures (2)
{
  double const value = *rc::gen::inRange(-100'000'000, 100'000'000) / 7919.0;
  svg_drawing drawing(1, 1, "");
  drawing.circle({value, 0}, 1, "measured");
  std::string const written =
      markup::named(markup::parse(drawing.markup()), "circle").front().attributes.at("cx");
  RC_ASSERT(std::abs(std::stod(written) - value) <= 0.005 + 1e-9);
  RC_ASSERT(written != "-0");
  auto const point = written.find('.');
  RC_ASSERT(point == written.npos || (written.size() - point <= 3 && written.back() != '0'));
}

}  // namespace
