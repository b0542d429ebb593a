// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/plot_frame.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace {

using pages::axis;
using testing::DoubleEq;
using testing::DoubleNear;
using testing::Pointwise;

void expect_ticks(axis const& made, std::vector<double> const& expected)
{
  EXPECT_THAT(std::vector<double>(made.ticks().begin(), made.ticks().end()),
              Pointwise(DoubleEq(), expected));
}

TEST(LinearAxis, NamesRoundValues)  // Ensures (2)
{
  expect_ticks(axis::linear(32, 8), {0, 5, 10, 15, 20, 25, 30});
  expect_ticks(axis::linear(1.59, 5), {0, 0.5, 1, 1.5});
  expect_ticks(axis::linear(10, 5), {0, 2, 4, 6, 8, 10});
  expect_ticks(axis::linear(1, 1), {0, 1});
}

TEST(LinearAxis, EndsAtOneWhereAllIsZero)  // Ensures (1)
{
  axis const made = axis::linear(0, 5);
  EXPECT_EQ(made.highest(), 1);
  EXPECT_EQ(made.fraction(0), 0);
  EXPECT_EQ(axis::linear(5e-324, 5).highest(), 1);
}

// Oracle: among all round steps, the finest with few enough intervals.
double finest_step(double highest, std::size_t intervals)
{
  for (int exponent = -40; exponent <= 40; ++exponent) {
    for (double const digit : {1.0, 2.0, 5.0}) {
      double const step = digit * std::pow(10.0, exponent);
      if (highest / step <= static_cast<double>(intervals) * (1 + 1e-12)) { return step; }
    }
  }
  return 0;
}

RC_GTEST_PROP(LinearAxis, TakesTheFinestRoundStep, ())  // Ensures (1) (2)
{
  double const highest =
      (1 + *rc::gen::inRange(0, 900) / 100.0) * std::pow(10.0, *rc::gen::inRange(-29, 29));
  auto const intervals = *rc::gen::inRange<std::size_t>(1, 12);
  axis const made = axis::linear(highest, intervals);
  double const step = finest_step(highest, intervals);
  RC_ASSERT(made.fraction(0) == 0);
  RC_ASSERT(made.fraction(highest) == 1);
  RC_ASSERT(std::abs(made.ticks().back() - std::floor(highest / step * (1 + 1e-12)) * step) <=
            1e-9 * highest);
  for (std::size_t tick = 0; tick < made.ticks().size(); ++tick) {
    double const expected = static_cast<double>(tick) * step;
    RC_ASSERT(std::abs(made.ticks()[tick] - expected) <= 1e-9 * highest);
    RC_ASSERT(made.ticks()[tick] <= highest);
  }
}

TEST(LogarithmicAxis, NamesOneTwoAndFiveOfEachDecade)  // Ensures (3)
{
  expect_ticks(axis::logarithmic(64, 2000), {100, 200, 500, 1000, 2000});
  expect_ticks(axis::logarithmic(0.7, 100'000), {1, 10, 100, 1000, 10'000, 100'000});
}

TEST(LogarithmicAxis, NamesLinearStepsInANarrowRange)  // Ensures (3)
{
  expect_ticks(axis::logarithmic(300, 760), {300, 400, 500, 600, 700});
  expect_ticks(axis::logarithmic(150, 900), {200, 400, 600, 800});
  expect_ticks(axis::logarithmic(510, 529), {510, 515, 520, 525});
}

RC_GTEST_PROP(LogarithmicAxis, KeepsTicksWithinAndIncreasing, ())  // Ensures (2)
{
  double const lowest = std::pow(10.0, *rc::gen::inRange(-300, 250) / 10.0);
  double const highest = lowest * (1 + *rc::gen::inRange(1, 100'000) / 1000.0);
  axis const made = axis::logarithmic(lowest, highest);
  RC_ASSERT(!made.ticks().empty());
  RC_ASSERT(made.ticks().front() >= lowest);
  RC_ASSERT(made.ticks().back() <= highest);
  RC_ASSERT(std::ranges::adjacent_find(made.ticks(), std::ranges::greater_equal{}) ==
            made.ticks().end());
}

using pages::axis;
using pages::plot_frame;
using pages::svg_drawing;

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

}  // namespace
