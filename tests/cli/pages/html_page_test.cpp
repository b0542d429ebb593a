// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/html_page.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using pages::html_page;
using testing::HasSubstr;
using testing::Not;

std::string const hostile_text = "</title><script>alert(\"1\")</script> & 'more'";

html_page page_of_everything()
{
  html_page page(hostile_text, hostile_text);
  page.add_figures(
      {{hostile_text, hostile_text, hostile_text}, {"Waiting", "2 %", "less is better", "40 %"}});
  page.add_chart(hostile_text, hostile_text, "<svg viewBox=\"0 0 1 1\"></svg>");
  page.add_section(hostile_text, hostile_text, "<p>body</p>");
  page.add_settings(hostile_text, hostile_text, {{hostile_text, hostile_text}});
  return page;
}

TEST(HtmlPage, IsWellFormed)  // Ensures (1)
{
  auto const elements = markup::parse(page_of_everything().markup());
  EXPECT_EQ(elements.front().name, "html");
  EXPECT_EQ(elements.front().attributes.at("lang"), "en");
  EXPECT_EQ(markup::named(elements, "svg").size(), 1U);
  EXPECT_EQ(markup::named(elements, "h1").size(), 1U);
  EXPECT_EQ(markup::named(elements, "h2").size(), 3U);
}

TEST(HtmlPage, TakesTextForText)  // Ensures (2)
{
  auto const elements = markup::parse(page_of_everything().markup());
  EXPECT_TRUE(markup::named(elements, "script").empty());
  for (char const* const name : {"title", "h1", "h2", "dt", "dd"}) {
    EXPECT_EQ(markup::named(elements, name).front().text, hostile_text) << name;
  }
}

TEST(HtmlPage, ForbidsScriptsAndRequests)  // Ensures (3)
{
  auto const elements = markup::parse(page_of_everything().markup());
  std::string policy;
  std::string viewport;
  for (auto const& meta : markup::named(elements, "meta")) {
    if (meta.attributes.contains("http-equiv")) { policy = meta.attributes.at("content"); }
    if (meta.attributes.contains("name")) { viewport = meta.attributes.at("name"); }
  }
  EXPECT_EQ(policy, "default-src 'none'; style-src 'unsafe-inline'");
  EXPECT_EQ(viewport, "viewport");
  std::string const page = page_of_everything().markup();
  for (char const* const request : {"http:", "https:", "url(", "@import", "src=", "href="}) {
    EXPECT_THAT(page, Not(HasSubstr(request)));
  }
}

TEST(HtmlPage, ShowsWhatAValueWasBefore)
{
  auto const elements = markup::parse(page_of_everything().markup());
  EXPECT_EQ(markup::named(elements, "span").front().text, "40 % \u2192");
}

TEST(HtmlPage, ShowsNumbersBetweenAChartAndItsExplanation)
{
  html_page page("title", "lead");
  page.add_chart("heading", "explanation", "<svg viewBox=\"0 0 1 1\"></svg>",
                 {{"name", "value", "hint"}});
  std::string const text = page.markup();
  EXPECT_EQ(markup::having_class(markup::parse(text), "value").front().text, "value");
  EXPECT_LT(text.find("explanation"), text.find("<dl class=\"figures\">"));
  EXPECT_LT(text.find("<dl class=\"figures\">"), text.find("<svg"));
}

std::vector<std::string> const table_columns = {"Policy", "Gap < 1"};

TEST(HtmlTable, EscapesHeadingsAndCells)  // Ensures (2)
{
  pages::html_table table(table_columns);
  table.add_row({"</td><script>", "&"});
  auto const elements = markup::parse(table.markup());
  EXPECT_EQ(markup::named(elements, "th").at(1).text, "Gap < 1");
  EXPECT_EQ(markup::named(elements, "th").at(2).text, "</td><script>");
  EXPECT_EQ(markup::named(elements, "td").at(0).text, "&");
}

}  // namespace
