// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/layout_steps_chart.hpp>  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace {

using ballast::report::layout_steps;
using ballast::report::layout_steps_chart;

TEST(LayoutStepsChart, DrawsTwoBarsOfALayoutInProportion)  // Ensures (1)
{
  auto const elements = markup::parse(layout_steps_chart({{1, 2}, {3, 4}}));
  auto const predicted = markup::having_class(elements, "before");
  auto const simulated = markup::having_class(elements, "after");
  ASSERT_EQ(predicted.size(), 2U);
  ASSERT_EQ(simulated.size(), 2U);
  double const highest = 216 / 1.06;
  EXPECT_NEAR(predicted[0].number("height"), highest / 4, 0.011);
  EXPECT_NEAR(simulated[1].number("height"), highest, 0.011);
  EXPECT_LT(predicted[1].number("x") + predicted[1].number("width"), simulated[1].number("x"));
  auto const titles = markup::texts(markup::named(elements, "title"));
  EXPECT_THAT(titles, testing::Contains("layout 2, simulated: 4\u00A0s"));
  EXPECT_THAT(elements.front().attributes.at("aria-label"), testing::HasSubstr("takes 2\u00A0s"));
}

TEST(LayoutStepsChart, StaysBounded)
{
  auto const elements = markup::parse(layout_steps_chart(std::vector<layout_steps>(100, {1, 0})));
  EXPECT_EQ(markup::having_class(elements, "after").size(), ballast::report::most_layout_bars);
}

TEST(LayoutStepsChartDeathTest, RefusesTimesThatAreNone)
{
  EXPECT_DEATH((void)layout_steps_chart({}), "layouts.empty");
  EXPECT_DEATH((void)layout_steps_chart({{1, 1}, {1, -2}}), "layout 1 has steps of 1 and -2");
}

}  // namespace
