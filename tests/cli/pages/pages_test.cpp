// SPDX-License-Identifier: Apache-2.0
// Each page is well-formed, needs nothing else, and says in words and figures what was found.

#include "../../../examples/ballast/pages/compare_page.hpp"
#include "../../../examples/ballast/pages/html_page.hpp"
#include "../../../examples/ballast/pages/layout_page.hpp"
#include "../../../examples/ballast/pages/orchestration_page.hpp"
#include "../../../examples/ballast/pages/pipeline_page.hpp"
#include "../../../examples/ballast/pages/plan_figures.hpp"
#include "../../../examples/ballast/pages/plan_page.hpp"
#include "markup.hpp"

#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>

namespace pages {
namespace {

using ballast::compiled_schedule;
using ballast::microbatch_id;
using ballast::module_layout;
using ballast::order_plan;
using ballast::pipeline_times;
using ballast::route_volume;

/// The page has more than so many classes, and a style for each.
void expect_styled(std::string const& page, std::size_t more_than)
{
  std::set<std::string> used;
  for (auto const& each : parse(page)) {
    for (std::string const& name : each.classes()) { used.insert(name); }
  }
  EXPECT_GT(used.size(), more_than);
  std::string const style = page.substr(0, page.find("</style>"));
  for (std::string const& name : used) {
    EXPECT_THAT(style, AnyOf(HasSubstr("." + name + " "), HasSubstr("." + name + ","))) << name;
  }
}

// ---- Html page ----------------------------------------------------------------------------------

std::string const hostile_text = "</title><script>alert(\"1\")</script> & 'more'";

html_page page_of_everything()
{
  auto const drawn = [](chart_size const&) { return "<svg viewBox=\"0 0 1 1\"></svg>"; };
  html_page page(hostile_text, hostile_text);
  page.add_figures(
      {{hostile_text, hostile_text, hostile_text}, {"Waiting", "2 %", "less is better", "40 %"}});
  page.add_chart(hostile_text, hostile_text, drawn);
  page.add_section(hostile_text, hostile_text, "<p>body</p>");
  page.add_settings(hostile_text, hostile_text, {{hostile_text, hostile_text}});
  return page;
}

TEST(HtmlPage, IsWellFormed)  // Ensures (1)
{
  auto const elements = parse(page_of_everything().markup());
  EXPECT_EQ(elements.front().name, "html");
  EXPECT_EQ(elements.front().attributes.at("lang"), "en");
  EXPECT_EQ(all(elements, "svg").size(), 2U);  // for wide pages and for narrow ones
  EXPECT_EQ(all(elements, "h1").size(), 1U);
  EXPECT_EQ(all(elements, "h2").size(), 3U);
}

TEST(HtmlPage, TakesTextForText)  // Ensures (2)
{
  auto const elements = parse(page_of_everything().markup());
  EXPECT_TRUE(all(elements, "script").empty());
  for (char const* const name : {"title", "h1", "h2", "dt", "dd"}) {
    EXPECT_EQ(all(elements, name).front().text, hostile_text) << name;
  }
}

TEST(HtmlPage, ForbidsScriptsAndRequests)  // Ensures (3)
{
  auto const elements = parse(page_of_everything().markup());
  std::string policy;
  std::string viewport;
  for (auto const& meta : all(elements, "meta")) {
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
  auto const elements = parse(page_of_everything().markup());
  EXPECT_EQ(all(elements, "span").front().text, "40 % \u2192");
}

TEST(HtmlPage, ShowsNumbersBetweenAChartAndItsExplanation)
{
  html_page page("title", "lead");
  auto const drawn = [](chart_size const& size) {
    return fmt::format("<svg viewBox=\"0 0 {} 1\"></svg>", size.width);
  };
  page.add_chart("heading", "explanation", drawn, {{"name", "value", "hint"}});
  std::string const text = page.markup();
  EXPECT_EQ(all(text, ".value").front().text, "value");
  EXPECT_LT(text.find("explanation"), text.find("<dl class=\"figures\">"));
  EXPECT_LT(text.find("<dl class=\"figures\">"), text.find("<svg"));
}

TEST(HtmlTable, EscapesHeadingsAndCells)  // Ensures (2)
{
  std::vector<std::string> const columns = {"Policy", "Gap < 1"};
  html_table table(columns);
  table.add_row({"</td><script>", "&"});
  auto const elements = parse(table.markup());
  EXPECT_EQ(all(elements, "th").at(1).text, "Gap < 1");
  EXPECT_EQ(all(elements, "th").at(2).text, "</td><script>");
  EXPECT_EQ(all(elements, "td").at(0).text, "&");
}

// ---- Plan figures -------------------------------------------------------------------------------

std::vector<plan_page_step> two_steps()
{
  std::vector<plan_page_step> steps(2);
  steps[0].exchange = route_volume::cost{.kept_share = 0.5,
                                         .messages_mean = 3,
                                         .messages_max = 7,
                                         .bytes_mean = 2e6,
                                         .bytes_max = 9e6,
                                         .seconds = 2e-3};
  steps[1].exchange = route_volume::cost{.kept_share = 0.25,
                                         .messages_mean = 4,
                                         .messages_max = 5,
                                         .bytes_mean = 4e6,
                                         .bytes_max = 8e6,
                                         .seconds = 4e-3};
  return steps;
}

TEST(PlanPageFigures, ShowsMeansAndWorstCasesOfTheExchanges)
{
  auto steps = two_steps();
  auto figures = exchange_figures(steps, 16, "");
  std::vector<std::string> shown;
  for (auto const& each : figures) { shown.push_back(each.value); }
  EXPECT_THAT(shown, ElementsAre("3\u00A0MB", "38\u00A0%", "3.5", "3\u00A0ms"));
  EXPECT_THAT(figures[0].hint, HasSubstr("more than 9\u00A0MB"));
  EXPECT_THAT(figures[2].hint, HasSubstr("more than 7 in"));
  EXPECT_THAT(figures[1].hint, HasSubstr("chance: about 6.2\u00A0% with 16 GPUs."));
  EXPECT_THAT(figures[3].hint, Not(HasSubstr("computes")));

  steps[0].compute_seconds = 0.1;
  steps[1].compute_seconds = 0.3;
  figures = exchange_figures(steps, 16, "");
  EXPECT_THAT(figures[3].hint, HasSubstr("The busiest GPU computes for 200\u00A0ms."));
  figures = exchange_figures(steps, 16, "the forward pass");
  EXPECT_THAT(figures[3].hint, HasSubstr("computes for 200\u00A0ms: the forward pass."));
  EXPECT_TRUE(exchange_figures({}, 1, "").empty());
}

TEST(PlanPageFigures, ComparesWithAllGatherWhereItIsPriced)
{
  auto steps = two_steps();
  for (auto const& each : exchange_figures(steps, 16, "")) {
    EXPECT_THAT(each.hint, Not(HasSubstr("all-gather")));
  }
  for (double const times : {10.0, 30.0}) {
    auto& all_gather = steps[times < 20 ? 0 : 1].all_gather.emplace();
    all_gather.bytes_mean = times * 1e6;
    all_gather.seconds = times * 1e-3;
  }
  auto const figures = exchange_figures(steps, 16, "");
  EXPECT_THAT(figures[0].hint, HasSubstr("all-gather, without a plan: 20\u00A0MB."));
  EXPECT_THAT(figures[3].hint, HasSubstr("all-gather, without a plan: 20\u00A0ms."));
}

TEST(PlanPageFigures, PromisesLessComputingAndPointsToWhatItCosts)
{
  auto steps = two_steps();
  for (auto& step : steps) {
    step.before = {.heaviest = 2, .lightest = 0, .mean = 1};
    step.after = {.heaviest = 1, .lightest = 1, .mean = 1};
  }
  EXPECT_THAT(plan_lead(steps),
              EndsWith("so computing takes 50\u00A0% less time. Bytes moved says what moving the "
                       "samples takes."));
  for (auto& step : steps) { step.exchange.reset(); }
  EXPECT_THAT(plan_lead(steps), EndsWith("so computing takes 50\u00A0% less time."));
}

// ---- Plan page ----------------------------------------------------------------------------------

plan_page_data two_gpus()
{
  plan_page_data data;
  data.title = "Two GPUs";
  data.unit = "s";
  data.steps = {{.samples = 3,
                 .length = 9000,
                 .before = {.heaviest = 0.9, .lightest = 0.1, .mean = 0.5},
                 .after = {.heaviest = 0.6, .lightest = 0.4, .mean = 0.5},
                 .gap = 0.2,
                 .plan_seconds = 31e-6}};
  data.gpus = 2;
  data.timeline_before = {{rank_id{0}, 0, 0.6, "sample 0"},
                          {rank_id{0}, 0.6, 0.3, "sample 1"},
                          {rank_id{1}, 0, 0.1, "sample 2"}};
  data.timeline_after = {{rank_id{0}, 0, 0.6, "sample 0"},
                         {rank_id{1}, 0, 0.3, "sample 1"},
                         {rank_id{1}, 0.3, 0.1, "sample 2"}};
  data.lengths = {{1000, 1999, 1}, {2000, 3999, 1}, {4000, 7999, 1}};
  data.length_work = {0.1, 0.3, 0.6};
  data.cost_model = {{0, 0, 0}, {3000, 0.25, 0.05}, {5000, 0.42, 0.18}};
  data.settings = {{"Trace", "example.csv"}, {"Policy", "greedy_knapsack"}};
  std::string const page = plan_page(data);  // and write_file("plan.html", page)
  EXPECT_FALSE(page.empty());
  return data;
}

TEST(PlanPage, ShowsTheBagsThatWereJudged)  // Ensures (1)
{
  plan_page_data data = two_gpus();
  data.judged = {{"g2n1", 0.002, 0.004}, {"g1n2", 0.003, 0.005}};
  auto const elements = parse(plan_page(data));
  EXPECT_THAT(texts(elements, "h2"), ElementsAre("Work per GPU", "Step timeline", "Sample lengths",
                                                 "Cost of a sample", "Bags", "Steps", "Settings"));
  EXPECT_THAT(texts(elements, "th"), Contains("g1n2"));
}

TEST(PlanPage, ShowsTheBytesMovedWhereTheyAreKnown)  // Ensures (1)
{
  plan_page_data data = two_gpus();
  route_volume::cost exchange{.bytes_mean = 3e6, .seconds = 2e-3};
  data.steps.front().exchange = exchange;
  data.steps.front().compute_seconds = 0.6;
  data.computed = "the forward pass";
  data.bytes_per_token = 6144;
  data.moved.ranks.resize(2);
  data.moved.ranks[0].sent = {.within_node = 0, .between_nodes = 1000, .messages = 1};
  data.moved.ranks[1].received = {.within_node = 0, .between_nodes = 1000, .messages = 1};
  std::string const page = plan_page(data);
  auto const elements = parse(page);
  EXPECT_THAT(texts(elements, "h2"),
              ElementsAre("Work per GPU", "Step timeline", "Bytes moved", "Sample lengths",
                          "Cost of a sample", "Steps", "Settings"));
  EXPECT_EQ(all(elements, "svg").size(), 2 * 5U);
  EXPECT_THAT(texts(elements, ".value"), Contains("3\u00A0MB"));
  EXPECT_THAT(page, HasSubstr("an array of 6.14\u00A0kB per token"));
  EXPECT_THAT(page, HasSubstr("computes for 600\u00A0ms: the forward pass."));
  EXPECT_THAT(page, HasSubstr("with 2 GPUs."));
  EXPECT_THAT(texts(elements, "title"), Contains(HasSubstr("GPU 1 receives")));
}

TEST(PlanPage, UsesOnlyClassesThatHaveAStyle)
{
  expect_styled(plan_page(two_gpus()), 20);
}

TEST(PlanPage, SaysInWordsWhatThePlanGains)
{
  auto const elements = parse(plan_page(two_gpus()));
  EXPECT_EQ(
      all(elements, ".lead").front().text,
      "Every step computes for as long as its busiest GPU. As the data came, that GPU had 1.80 "
      "times the mean work; with this plan it has 1.20 times, so computing takes 33\u00A0% less "
      "time.");
}

TEST(PlanPage, ShowsFiguresOfAllSteps)
{
  plan_page_data data = two_gpus();
  data.steps.push_back(data.steps.front());
  data.steps.back().before = {.heaviest = 2.0, .lightest = 1.0, .mean = 1.25};  // ratios 1.6 and 2
  data.steps.back().gap = 0.00012301;
  data.steps.back().plan_seconds = 33e-6;
  auto const elements = parse(plan_page(data));
  EXPECT_THAT(texts(elements, "span"),
              ElementsAre("1.70 \u2192", "5.50 \u2192", "41\u00A0% \u2192"));
  EXPECT_THAT(texts(elements, ".value"), ElementsAre(" 1.20", " 1.50", " 17\u00A0%",
                                                     "\u2264\u00A020\u00A0%", "32\u00A0\u00B5s"));
  // A certified bound is never rounded down.
  EXPECT_THAT(texts(elements, "td"), Contains("\u2264\u00A00.013\u00A0%"));
}

TEST(PlanPage, ShowsAnIdleGpuAsInfiniteImbalance)
{
  plan_page_data data = two_gpus();
  data.steps.front().before.lightest = 0;
  auto const elements = parse(plan_page(data));
  EXPECT_EQ(all(elements, "span").at(1).text, "\u221E \u2192");
}

TEST(PlanPage, EscapesWhatUsersSupply)
{
  std::string const hostile = "<script>\"'&";
  plan_page_data data = two_gpus();
  data.title = hostile;
  data.settings = {{hostile, hostile}};
  data.unit = hostile;
  data.timeline_after.front().label = hostile;
  data.length_marks = {{3000, hostile}};
  auto const elements = parse(plan_page(data));
  EXPECT_TRUE(all(elements, "script").empty());
  EXPECT_THAT(texts(elements, "title"), Contains(HasSubstr("GPU 0, " + hostile)));
}

TEST(PlanPage, IsWellFormedWithoutData)
{
  auto const elements = parse(plan_page({}));
  EXPECT_EQ(all(elements, "svg").size(), 2 * 4U);
  EXPECT_EQ(all(elements, ".lead").front().text, "No step was planned.");
}

TEST(PlanPage, IsWellFormedForOneGpuWithoutWork)
{
  plan_page_data data;
  data.steps.resize(1);
  data.gpus = 1;
  std::string const page = plan_page(data);
  EXPECT_NO_THROW((void)parse(page));
  EXPECT_THAT(page, HasSubstr("no less time"));
}

TEST(PlanPage, StaysSmallForManyGpusSamplesAndSteps)
{
  plan_page_data data;
  data.steps.resize(6000);
  data.gpus = 4096;
  for (std::size_t gpu = 0; gpu < 4096; ++gpu) {
    for (int sample = 0; sample < 20; ++sample) {
      data.timeline_before.push_back(
          {ballast::to_id<rank_id>(gpu), sample * 0.05, 0.05, "a sample"});
    }
  }
  data.timeline_after = data.timeline_before;
  std::string const page = plan_page(data);
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_THAT(page, HasSubstr("The first 5\u202F000 of 6\u202F000 steps."));
  EXPECT_THAT(page, HasSubstr("Shown are 64 of 4\u202F096 GPUs"));
}

// ---- Compare page -------------------------------------------------------------------------------

TEST(ComparePage, DrawsBarsInProportionAndEscapesNames)
{
  compare_page_data data;
  data.as_read = {.name = "as read", .step = 4, .balance_ratio = 2};
  data.plans = {{.name = "<refine>", .step = 2, .balance_ratio = 1, .plan_seconds = 1e-3},
                {.name = "lpt", .step = 3, .balance_ratio = 1.5}};
  data.unit = "s";
  data.settings = {{"GPUs", "8"}};
  std::string const page = compare_page(data);
  std::vector<double> widths;
  for (auto const& element : parse(page)) {
    if (element.name == "rect") { widths.push_back(element.number("width")); }
  }
  ASSERT_EQ(widths.size(), 2 * 3U);
  EXPECT_DOUBLE_EQ(widths[1], widths[0] / 2);
  EXPECT_DOUBLE_EQ(widths[2], widths[0] * 3 / 4);
  EXPECT_THAT(page, HasSubstr("&lt;refine&gt; has the shortest steps."));
}

// ---- Pipeline page ------------------------------------------------------------------------------

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
  [[nodiscard]] std::string page() const
  {
    return pipeline_page(data, schedule, schedule, times, one_each, plan);
  }
  std::vector<ballast::held_bytes> one_each =
      std::vector(times.rows.size(), ballast::held_bytes{1, 1});
};

TEST(PipelinePage, SaysWhatTheOrderGains)
{
  example shown;
  auto const lead = [&] { return all(shown.page(), ".lead").at(0).text; };
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
  auto const elements = parse(example().page());
  auto const values = texts(elements, ".value");
  ASSERT_EQ(values.size(), 4U);
  EXPECT_THAT(values[0], HasSubstr("4\u00A0s"));
  EXPECT_THAT(values[1], HasSubstr("12\u00A0%"));  // 14 of 16 are computed
  EXPECT_THAT(values[2], HasSubstr("\u2264\u00A00\u00A0%"));
  EXPECT_THAT(texts(elements, "span"), ElementsAre("6.5\u00A0s \u2192", "46\u00A0% \u2192"));
  EXPECT_THAT(texts(elements, "td"), ElementsAre("3.5\u00A0s", "46\u00A0% \u2192 12\u00A0%", "2",
                                                 "3.5\u00A0s", "46\u00A0% \u2192 12\u00A0%", "1"));
}

TEST(PipelinePage, UsesOnlyClassesThatHaveAStyle)
{
  expect_styled(example().page(), 15);
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
    std::vector const one_each(times.rows.size(), ballast::held_bytes{1, 1});
    EXPECT_NO_THROW((void)parse(pipeline_page({}, schedule, schedule, times, one_each, plan)));
  }
}

// ---- Layout page --------------------------------------------------------------------------------

layout_page_data two_layouts(std::uint32_t replicas = 4)
{
  constexpr std::int64_t second = 1'000'000'000'000;
  layout_page_data data;
  data.title = "vision and llm on few GPUs";
  data.modules = {"<vision>", "llm"};
  data.layouts = {
      {{{{1, 1, replicas}, {2, 2, replicas}}, 6, 2 * second, 70'000'000'000}, 3 * second},
      {{{{2, 1, 2}, {4, 1, 4}}, 8, second, 75'000'000'000}, 4 * second}};
  data.places = {
      ballast::place_layout(data.layouts.front().layout.modules, 5 * replicas, 4).value()};
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
  auto const elements = parse(layout_page(two_layouts()));
  EXPECT_EQ(all(elements, ".lead").at(0).text,
            "The best layout is <vision> tp 1 pp 1 dp 4, llm tp 2 pp 2 dp 4, with 6 microbatches "
            "for each replica of llm.");
  EXPECT_THAT(texts(elements, ".value"),
              ElementsAre("3\u00A0s", "1.5\u00A0s", "70\u00A0GB", "12\u00A0ms"));
  EXPECT_THAT(texts(elements, ".hint"), Contains(HasSubstr("4\u202F711 layouts simulated")));
  EXPECT_THAT(layout_page(two_layouts()), HasSubstr("No other is better. Microbatches are"));
  auto const cells = texts(elements, "td");
  EXPECT_THAT(cells, Contains("4 \u00B7 1 \u00B7 4"));
  EXPECT_THAT(cells, Contains("75\u00A0GB"));
}

TEST(LayoutPage, ShowsGpusOfEachKind)
{
  auto data = two_layouts();
  EXPECT_THAT(texts(layout_page(data), ".hint"),
              Contains("of the GPU that holds most, of 80\u00A0GB"));
  data.places = {ballast::place_layout(std::vector<module_layout>{{1, 1, 4}}, 4, 4).value(),
                 ballast::place_layout(std::vector<module_layout>{{2, 2, 4}}, 16, 4).value()};
  for (auto& place : data.places[1]) { place.module = 1; }
  std::string const page = layout_page(data);
  EXPECT_THAT(texts(page, "h2"),
              ElementsAre("GPUs of kind 0", "GPUs of kind 1", "Steps", "Layouts", "Settings"));
  EXPECT_THAT(texts(page, ".hint"), Contains("of the GPU that holds most"));
}

TEST(LayoutPage, SaysWhatItDoesNotShow)
{
  auto data = two_layouts(40);
  data.layouts.resize(1200, data.layouts.back());
  std::string const page = layout_page(data);
  EXPECT_THAT(page, HasSubstr("Shown are the first 32 of 50 nodes."));
  EXPECT_THAT(page, HasSubstr("Shown are the first 32 of 1\u202F200 layouts."));
  EXPECT_THAT(page, HasSubstr("The first 1000 of 1\u202F200 layouts."));
  EXPECT_EQ(all(page, "tr").size(), 1001U);
}

// ---- Orchestration page -------------------------------------------------------------------------

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
  auto const elements = parse(page);
  EXPECT_THAT(texts(elements, "h1"), ElementsAre("<vision> and llm on 24 GPUs"));
  EXPECT_THAT(texts(elements, "h2"), ElementsAre("GPUs", "Policies", "Settings"));
  EXPECT_EQ(
      all(elements, ".lead").at(0).text,
      "Each module has GPUs and a parallelism of its own: <vision> tp 1 pp 1 dp 4, llm tp 2 pp "
      "2 dp 4, with 6 microbatches for each replica of llm.");
  EXPECT_THAT(texts(elements, ".value"), ElementsAre("2\u00A0s", "20", "70\u00A0GB", "12\u00A0ms"));
  auto const cells = texts(elements, "td");
  EXPECT_THAT(cells, Contains("2.50 x"));
  EXPECT_THAT(cells, Contains("1.9\u00A0s"));
  EXPECT_THAT(page, HasSubstr("1.9\u00A0s simulated"));
  EXPECT_THAT(cells, Contains("2 \u00B7 1 \u00B7 4"));
  EXPECT_EQ(page, orchestration_page(two_policies()));
}

TEST(OrchestrationPage, ShowsGpusOfEachKind)
{
  auto data = two_policies();
  std::vector<module_layout> const encoder = {{1, 1, 160}};
  data.layouts.resize(1);
  data.layouts[0].layout.modules[0].dp = 160;
  data.places = {ballast::place_layout(encoder, 160, 4).value(),
                 ballast::place_layout(std::vector<module_layout>{{2, 2, 4}}, 16, 4).value()};
  for (auto& place : data.places[1]) { place.module = 1; }
  std::string const page = orchestration_page(data);
  EXPECT_THAT(texts(page, "h2"),
              ElementsAre("GPUs of kind 0", "GPUs of kind 1", "Policies", "Settings"));
  EXPECT_THAT(page, HasSubstr("Shown are the first 32 of 40 nodes."));
}

}  // namespace
}  // namespace pages
