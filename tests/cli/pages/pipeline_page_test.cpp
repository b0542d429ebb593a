// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/pipeline_page.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace {

using ballast::compiled_schedule;
using ballast::microbatch_id;
using ballast::order_plan;
using ballast::pipeline_times;
using pages::pipeline_page;
using pages::pipeline_page_data;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

compiled_schedule schedule_of(std::size_t microbatches, std::size_t stages)
{
  auto const chain = ballast::chain_of_stages(stages, stages);
  return compiled_schedule::make(chain, ballast::one_forward_one_backward{}, microbatches).value();
}

// The first microbatch is long on the first stage and the other on the second: better last, 8 units
// than first, 13.
struct example {
  compiled_schedule schedule = schedule_of(2, 2);
  pipeline_times times{2, 2};
  order_plan plan;
  pipeline_page_data data;

  example()
  {
    times.rows = {{6, 0}, {1, 0}, {1, 0}, {6, 0}};
    plan = {{8, 8}, {microbatch_id{1}, microbatch_id{0}}, 13};
    data.title = "two microbatches";
    data.unit = "s";
    data.time_per_unit = 0.5;
    data.order_seconds = 31e-6;
    data.settings = {{"Times", "<example>.csv"}};
  }
  [[nodiscard]] std::string page() const { return pipeline_page(data, schedule, times, plan); }
};

TEST(PipelinePage, SaysWhatTheOrderGains)
{
  example shown;
  auto const lead = [&] {
    return markup::having_class(markup::parse(shown.page()), "lead").at(0).text;
  };
  EXPECT_EQ(lead(),
            "The order of the microbatches makes the step 38\u00A0% shorter. No order is shorter.");
  shown.plan.lower_bound = 6;
  EXPECT_THAT(lead(), HasSubstr("It is at most 34\u00A0% longer than with the best order."));
  shown.plan = {{13, 13}, {microbatch_id{0}, microbatch_id{1}}, 13};
  EXPECT_THAT(lead(), HasSubstr("makes the step no shorter. No order is shorter."));
  shown.plan = {{13, 8}, {microbatch_id{0}, microbatch_id{1}}, 8};
  EXPECT_THAT(lead(), HasSubstr("makes the step 62\u00A0% longer. It is at most"));
}

TEST(PipelinePage, ShowsTheFiguresOfThePlan)
{
  auto const elements = markup::parse(example().page());
  auto const values = markup::texts(markup::having_class(elements, "value"));
  ASSERT_EQ(values.size(), 4U);
  EXPECT_THAT(values[0], HasSubstr("4\u00A0s"));
  EXPECT_THAT(values[1], HasSubstr("12\u00A0%"));  // 14 of 16 are computed
  EXPECT_THAT(values[2], HasSubstr("\u2264\u00A00\u00A0%"));
  EXPECT_THAT(markup::texts(markup::named(elements, "span")),
              ElementsAre("6.5\u00A0s \u2192", "46\u00A0% \u2192"));
  EXPECT_THAT(markup::texts(markup::named(elements, "td")),
              ElementsAre("3.5\u00A0s", "46\u00A0% \u2192 12\u00A0%", "2", "3.5\u00A0s",
                          "46\u00A0% \u2192 12\u00A0%", "1"));
}

TEST(PipelinePage, UsesOnlyClassesThatHaveAStyle)
{
  std::string const page = example().page();
  std::set<std::string> used;
  for (auto const& each : markup::parse(page)) {
    for (std::string const& name : each.classes()) { used.insert(name); }
  }
  EXPECT_GT(used.size(), 15U);
  std::string const style = page.substr(0, page.find("</style>"));
  for (std::string const& name : used) {
    EXPECT_THAT(style, AnyOf(HasSubstr("." + name + " "), HasSubstr("." + name + ","))) << name;
  }
}

TEST(PipelinePage, IsWrittenWithoutMicrobatchesAndTime)
{
  for (std::size_t const microbatches : {0U, 3U}) {
    auto const schedule = schedule_of(microbatches, 2);
    pipeline_times const times(microbatches, 2);
    order_plan plan;
    for (std::size_t at = 0; at < microbatches; ++at) {
      plan.order.push_back(ballast::to_id<microbatch_id>(at));
    }
    EXPECT_NO_THROW((void)markup::parse(pipeline_page({}, schedule, times, plan)));
  }
}

}  // namespace
