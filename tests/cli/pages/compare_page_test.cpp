// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/compare_page.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using testing::HasSubstr;

TEST(ComparePage, DrawsBarsInProportionAndEscapesNames)
{
  pages::compare_page_data data;
  data.as_read = {.name = "as read", .step = 4, .balance_ratio = 2};
  data.plans = {{.name = "<refine>", .step = 2, .balance_ratio = 1, .plan_seconds = 1e-3},
                {.name = "lpt", .step = 3, .balance_ratio = 1.5}};
  data.unit = "s";
  data.settings = {{"GPUs", "8"}};
  std::string const page = pages::compare_page(data);
  std::vector<double> widths;
  for (auto const& element : markup::parser(page).parse()) {
    if (element.name == "rect") { widths.push_back(element.number("width")); }
  }
  ASSERT_EQ(widths.size(), 3U);
  EXPECT_DOUBLE_EQ(widths[1], widths[0] / 2);
  EXPECT_DOUBLE_EQ(widths[2], widths[0] * 3 / 4);
  EXPECT_THAT(page, HasSubstr("&lt;refine&gt; has the shortest steps."));
}

}  // namespace
