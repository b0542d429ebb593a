// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/judged_bags.hpp>  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using ballast::report::judged_bags_table;
using testing::ElementsAre;

TEST(JudgedBags, AreComparedWithTheFirst)
{
  auto const elements =
      markup::parse(judged_bags_table({{"g4n1+g1n4", 0.002, 0.004}, {"g8n1", 0.0025, 0.005}}));
  EXPECT_THAT(markup::texts(markup::named(elements, "td")),
              ElementsAre("4\u00A0ms", "", "2\u00A0ms", "5\u00A0ms", "25\u00A0%", "2.5\u00A0ms"));
  EXPECT_EQ(markup::named(elements, "tr").size(), 3U);
}

TEST(JudgedBags, MayTakeNoTime)
{
  auto const elements = markup::parse(judged_bags_table({{"g1n2", 0, 0}, {"g2n1", 0, 0}}));
  EXPECT_EQ(markup::named(elements, "tr").size(), 3U);
}

TEST(JudgedBagsDeathTest, RefusesTimesBelowZero)  // Expects
{
  EXPECT_DEATH((void)judged_bags_table({{"g1n2", 0, -1}}), "the least is 0");
}

}  // namespace
