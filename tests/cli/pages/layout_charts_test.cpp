// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/layout_charts.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/parallelism/place_layout.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using ballast::module_layout;
using pages::layout_chart;
using testing::Contains;
using testing::ElementsAre;

std::string chart_of(std::vector<module_layout> const& modules, std::uint32_t gpus,
                     std::uint32_t per_node, std::vector<std::string> const& names)
{
  auto const places = ballast::place_layout(modules, gpus, per_node).value();
  return layout_chart(modules, names, places, per_node);
}

TEST(LayoutChart, DrawsABarForEveryGroup)  // Ensures (1)
{
  std::vector<module_layout> const modules{{1, 1, 4}, {2, 2, 3}};
  auto const elements = markup::parse(chart_of(modules, 16, 8, {"vision", "llm"}));
  auto const bars = markup::having_class(elements, "after");
  ASSERT_EQ(bars.size(), 6U + 1) << "and one of the legend";
  EXPECT_NEAR(bars[1].number("width"), 2 * 856 / 8.0 - 2, 0.01);
  EXPECT_EQ(markup::having_class(elements, "before").size(), 4U + 1);
  auto const titles = markup::texts(markup::named(elements, "title"));
  EXPECT_EQ(titles.size(), 10U);
  EXPECT_THAT(titles, Contains("llm, replica 1, stage 1: GPU 6 to 7"));
  EXPECT_THAT(titles, Contains("vision, replica 3, stage 0: GPU 15"));
  auto const texts = markup::texts(markup::named(elements, "text"));
  EXPECT_THAT(texts, Contains("node 1"));
  EXPECT_THAT(texts, Contains("r2 s1"));
  EXPECT_THAT(texts, Contains("vision"));
}

TEST(LayoutChart, LabelsWhatHasRoom)  // Ensures (2)
{
  std::vector<module_layout> const modules{{1, 1, 36}};
  auto const narrow = markup::parse(chart_of(modules, 36, 36, {"llm"}));
  EXPECT_TRUE(markup::having_class(narrow, "inside").empty());
  EXPECT_EQ(markup::having_class(narrow, "before").size(), 37U);
}

TEST(LayoutChart, StaysBounded)
{
  std::vector<module_layout> const modules{{1, 1, 1000}};
  auto const elements = markup::parse(chart_of(modules, 1000, 8, {"llm"}));
  EXPECT_EQ(markup::having_class(elements, "inside").size(), 8 * pages::most_layout_nodes);
  EXPECT_THAT(elements.front().attributes.at("aria-label"),
              testing::HasSubstr("1000 GPUs on 125 nodes"));
}

using pages::layout_steps;
using pages::layout_steps_chart;

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

}  // namespace
