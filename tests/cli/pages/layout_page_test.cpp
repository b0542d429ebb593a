// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/layout_page.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/parallelism/place_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using pages::layout_page;
using pages::layout_page_data;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

layout_page_data two_layouts(std::uint32_t replicas = 4)
{
  constexpr std::int64_t second = 1'000'000'000'000;
  layout_page_data data;
  data.title = "vision and llm on few GPUs";
  data.modules = {"<vision>", "llm"};
  data.layouts = {
      {{{{1, 1, replicas}, {2, 2, replicas}}, 6, 2 * second, 70'000'000'000}, 3 * second},
      {{{{2, 1, 2}, {4, 1, 4}}, 8, second, 75'000'000'000}, 4 * second}};
  data.places = ballast::place_layout(data.layouts.front().layout.modules, 5 * replicas, 4).value();
  data.gpus_per_node = 4;
  data.memory_bytes = 80'000'000'000;
  data.certificate = "No other is better";
  data.lower_bound = second + second / 2;
  data.simulated = 4711;
  data.search_seconds = 12e-3;
  data.settings = {{"Profile", "<p>.csv"}};
  return data;
}

TEST(LayoutPage, SaysWhatIsBest)
{
  auto const elements = markup::parse(layout_page(two_layouts()));
  EXPECT_EQ(markup::having_class(elements, "lead").at(0).text,
            "The best layout is <vision> tp 1 pp 1 dp 4, llm tp 2 pp 2 dp 4, with 6 microbatches "
            "for each replica of llm.");
  EXPECT_THAT(markup::texts(markup::having_class(elements, "value")),
              ElementsAre("3\u00A0s", "1.5\u00A0s", "70\u00A0GB", "12\u00A0ms"));
  EXPECT_THAT(markup::texts(markup::having_class(elements, "hint")),
              Contains(HasSubstr("4\u202F711 layouts simulated")));
  EXPECT_THAT(layout_page(two_layouts()), HasSubstr("No other is better. Microbatches are"));
  auto const cells = markup::texts(markup::named(elements, "td"));
  EXPECT_THAT(cells, Contains("4 \u00B7 1 \u00B7 4"));
  EXPECT_THAT(cells, Contains("75\u00A0GB"));
}

TEST(LayoutPage, SaysWhatItDoesNotShow)
{
  auto data = two_layouts(40);
  data.layouts.resize(200, data.layouts.back());
  std::string const page = layout_page(data);
  EXPECT_THAT(page, HasSubstr("Shown are the first 32 of 50 nodes."));
  EXPECT_THAT(page, HasSubstr("Shown are the first 32 of 200 layouts."));
  EXPECT_THAT(page, HasSubstr("The first 100 of 200 layouts."));
  EXPECT_EQ(markup::named(markup::parse(page), "tr").size(), 101U);
}

}  // namespace
