// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/html_table.hpp>

#include "markup.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::string_view> const table_columns = {"Policy", "Gap < 1"};

TEST(HtmlTable, IsOneWellFormedElement)  // Ensures (1)
{
  ballast::report::html_table table(table_columns);
  table.add_row({"a", "1"});
  table.add_row({"b", "2"});
  auto const elements = markup::parse(table.markup());
  EXPECT_EQ(elements.front().name, "div");
  EXPECT_TRUE(elements.front().has_class("scroll"));
  EXPECT_EQ(markup::named(elements, "tr").size(), 3U);
  EXPECT_EQ(markup::named(elements, "th").size(), 4U);
  EXPECT_EQ(markup::named(elements, "td").size(), 2U);
}

TEST(HtmlTable, EscapesHeadingsAndCells)  // Ensures (2)
{
  ballast::report::html_table table(table_columns);
  table.add_row({"</td><script>", "&"});
  auto const elements = markup::parse(table.markup());
  EXPECT_EQ(markup::named(elements, "th").at(1).text, "Gap < 1");
  EXPECT_EQ(markup::named(elements, "th").at(2).text, "</td><script>");
  EXPECT_EQ(markup::named(elements, "td").at(0).text, "&");
}

TEST(HtmlTable, MayHaveNoRows)
{
  EXPECT_NO_THROW((void)markup::parse(ballast::report::html_table(table_columns).markup()));
}

TEST(HtmlTableDeathTest, RefusesARowOfAnotherWidth)
{
  ballast::report::html_table table(table_columns);
  EXPECT_DEATH(table.add_row({"a"}), "a row of 1 cells for a table of ");
}

}  // namespace
