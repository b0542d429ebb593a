// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/detail/plot_frame.hpp>

#include "../markup.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using ballast::detail::axis;
using ballast::detail::plot_frame;
using ballast::report::svg_drawing;

plot_frame const frame{{76, 20, 100, 50}, axis::linear(10, 5), axis::linear(4000, 4)};

TEST(PlotFrame, PutsTheEndsOfTheAxesInTheCorners)  // Ensures (1)
{
  EXPECT_EQ(frame.at(0, 0).x, 76);
  EXPECT_EQ(frame.at(0, 0).y, 70);
  EXPECT_EQ(frame.at(10, 4000).x, 176);
  EXPECT_EQ(frame.at(10, 4000).y, 20);
}

TEST(PlotFrame, DrawsWithinItsMargins)  // Ensures (2)
{
  svg_drawing drawing(204, 106, "");
  frame.draw_up(drawing, "cost", "s");
  frame.draw_across(drawing, "length", "");
  for (auto const& text : markup::named(markup::parse(drawing.markup()), "text")) {
    EXPECT_GE(text.number("x"), 0) << text.text;
    EXPECT_LE(text.number("x"), 204) << text.text;
    EXPECT_GE(text.number("y"), 8) << text.text;
    EXPECT_LE(text.number("y"), 106) << text.text;
  }
}

std::vector<std::string> tick_labels(svg_drawing const& drawing)
{
  std::vector<std::string> labels;
  for (auto const& text : markup::having_class(markup::parse(drawing.markup()), "tick")) {
    labels.push_back(text.text);
  }
  return labels;
}

TEST(PlotFrame, NamesValuesWithTheirUnit)
{
  svg_drawing drawing(200, 100, "");
  frame.draw_up(drawing, "cost", "s");
  EXPECT_EQ(tick_labels(drawing),
            (std::vector<std::string>{"0", "1\u202F000\u00A0s", "2\u202F000\u00A0s",
                                      "3\u202F000\u00A0s", "4\u202F000\u00A0s"}));
}

TEST(PlotFrame, NamesOnlyCellsThatExist)
{
  svg_drawing drawing(200, 100, "");
  frame.draw_across(drawing, "GPU", "", 0.5);
  EXPECT_EQ(tick_labels(drawing), (std::vector<std::string>{"0", "2", "4", "6", "8"}));
}

TEST(PlotFrame, LeavesOutNamesBesideAnotherPanel)
{
  svg_drawing drawing(200, 100, "");
  frame.draw_up(drawing, "cost", "s", false);
  EXPECT_TRUE(tick_labels(drawing).empty());
  EXPECT_EQ(markup::having_class(markup::parse(drawing.markup()), "grid").size(), 5U);
}

}  // namespace
