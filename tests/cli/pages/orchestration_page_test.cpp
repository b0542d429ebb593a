// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/orchestration_page.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/place_layout.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using pages::orchestration_page;
using pages::orchestration_page_data;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

orchestration_page_data two_policies()
{
  constexpr std::int64_t second = 1'000'000'000'000;
  orchestration_page_data data;
  data.modules = {"<vision>", "llm"};
  data.llm = 1;
  data.layouts = {{"best", {{{1, 1, 4}, {2, 2, 4}}, 6, 2 * second, 70'000'000'000}},
                  {"monolithic", {{{2, 1, 4}, {2, 1, 4}}, 6, 5 * second, 75'000'000'000}}};
  data.places = {ballast::place_layout(data.layouts.front().layout.modules, 20, 4).value()};
  data.layouts.front().simulated = 19 * second / 10;
  data.gpus = 24;
  data.gpus_per_node = 4;
  data.evaluated = 4711;
  data.search_seconds = 12e-3;
  data.settings = {{"Profile", "<p>.csv"}};
  return data;
}

TEST(OrchestrationPage, SaysWhatIsBestAndWhatOthersTake)  // Ensures (1) (2)
{
  std::string const page = orchestration_page(two_policies());
  auto const elements = markup::parse(page);
  EXPECT_THAT(markup::texts(markup::named(elements, "h1")),
              ElementsAre("<vision> and llm on 24 GPUs"));
  EXPECT_THAT(markup::texts(markup::named(elements, "h2")),
              ElementsAre("GPUs", "Policies", "Settings"));
  EXPECT_EQ(
      markup::having_class(elements, "lead").at(0).text,
      "Each module has GPUs and a parallelism of its own: <vision> tp 1 pp 1 dp 4, llm tp 2 pp "
      "2 dp 4, with 6 microbatches for each replica of llm.");
  EXPECT_THAT(markup::texts(markup::having_class(elements, "value")),
              ElementsAre("2\u00A0s", "20", "70\u00A0GB", "12\u00A0ms"));
  auto const cells = markup::texts(markup::named(elements, "td"));
  EXPECT_THAT(cells, Contains("2.50 x"));
  EXPECT_THAT(cells, Contains("1.9\u00A0s"));
  EXPECT_THAT(page, HasSubstr("1.9\u00A0s simulated"));
  EXPECT_THAT(cells, Contains("2 \u00B7 1 \u00B7 4"));
  EXPECT_EQ(page, orchestration_page(two_policies()));
}

TEST(OrchestrationPage, ShowsGpusOfEachKind)
{
  auto data = two_policies();
  std::vector<ballast::module_layout> const encoder = {{1, 1, 160}};
  data.layouts.resize(1);
  data.layouts[0].layout.modules[0].dp = 160;
  data.places = {
      ballast::place_layout(encoder, 160, 4).value(),
      ballast::place_layout(std::vector<ballast::module_layout>{{2, 2, 4}}, 16, 4).value()};
  for (auto& place : data.places[1]) { place.module = 1; }
  std::string const page = orchestration_page(data);
  EXPECT_THAT(markup::texts(markup::named(markup::parse(page), "h2")),
              ElementsAre("GPUs of kind 0", "GPUs of kind 1", "Policies", "Settings"));
  EXPECT_THAT(page, HasSubstr("Shown are the first 32 of 40 nodes."));
}

}  // namespace
