// SPDX-License-Identifier: Apache-2.0
// Each chart draws its figures in proportion, says what they stand for, and stays bounded.

#include "../../../examples/ballast/pages/cost_chart.hpp"
#include "../../../examples/ballast/pages/gantt_chart.hpp"
#include "../../../examples/ballast/pages/histogram_chart.hpp"
#include "../../../examples/ballast/pages/layout_charts.hpp"
#include "../../../examples/ballast/pages/load_chart.hpp"
#include "../../../examples/ballast/pages/pipeline_chart.hpp"
#include "../../../examples/ballast/pages/traffic_chart.hpp"
#include "markup.hpp"

#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/route.hpp>

namespace pages {
namespace {

using ballast::length_bin;
using ballast::microbatch_id;
using ballast::module_layout;
using ballast::pass;
using ballast::pipeline_rank;
using ballast::pipeline_times;
using ballast::route_volume;
using ballast::stage_id;

// ---- Load chart ---------------------------------------------------------------------------------

using gpu_loads = std::vector<double>;

/// Corners from the base line up, then only down again.
void expect_sorted(element const& area)
{
  auto const at = corners(area);
  EXPECT_TRUE(
      std::ranges::is_sorted(at.begin() + 1, at.end(), {}, &std::pair<double, double>::second));
  EXPECT_NEAR(at[1].second, at[0].second - 216 / 1.06, 0.0101);
}

RC_GTEST_PROP(LoadChart, DrawsOneBarPerGpuInProportionToItsLoad, ())  // Ensures (1) (2)
{
  auto const draw = rc::gen::container<gpu_loads>(
      rc::gen::map(rc::gen::inRange(0, 1000), [](int load) { return load * 0.37; }));
  gpu_loads before = *draw;
  gpu_loads after = *draw;
  before.resize(std::clamp<std::size_t>(before.size(), 1, 128), 1.0);
  after.resize(std::clamp<std::size_t>(after.size(), 1, 128), 1.0);
  std::string const chart = load_chart(before, after, "s");

  double const highest = std::max(std::ranges::max(before), std::ranges::max(after));
  for (auto const& [values, its_bars] :
       {std::pair{before, "rect.before"}, std::pair{after, "rect.after"}}) {
    auto const drawn = all(chart, its_bars);
    RC_ASSERT(drawn.size() == values.size());
    for (std::size_t gpu = 0; gpu < values.size(); ++gpu) {
      double const expected = highest > 0 ? 216 / 1.06 * values[gpu] / highest : 0;
      RC_ASSERT(std::abs(drawn[gpu].number("height") - expected) <= 0.0051);
    }
  }
}

TEST(LoadChart, SaysWhatABarStandsFor)
{
  std::string const chart = load_chart(gpu_loads{3, 1}, gpu_loads{2, 2}, "s");
  auto const elements = parse(chart);
  EXPECT_EQ(elements.front().attributes.at("aria-label"),
            "Work per GPU before and after balancing: the busiest has 1.50 times the mean, then "
            "1.000 times the mean");
  EXPECT_EQ(all(elements, "title").front().text, "GPU 0: 3\u00A0s, 1.50 \u00D7 the mean");
}

TEST(LoadChart, CountsAFastGpuAsOftenInTheMeanAsItIsFast)
{
  // Work of 4 and 4 at speeds 1 and 4 takes 4 and 1; evenly it would take 8 / 5.
  std::string const chart =
      load_chart(gpu_loads{4, 1}, gpu_loads{2, 2}, "s", {.before = {1, 4}, .after = {1, 4}});
  auto const elements = parse(chart);
  EXPECT_EQ(elements.front().attributes.at("aria-label"),
            "Work per GPU before and after balancing: the busiest has 2.50 times the mean, then "
            "1.000 times the mean");
  EXPECT_EQ(all(elements, "title").front().text, "GPU 0: 4\u00A0s, 2.50 \u00D7 the mean");
  EXPECT_EQ(load_chart(gpu_loads{4, 1}, gpu_loads{2, 2}, "s", {.before = {3, 3}, .after = {3, 3}}),
            load_chart(gpu_loads{4, 1}, gpu_loads{2, 2}, "s"));
}

TEST(LoadChart, DrawsMoreThan128GpusAsASortedArea)
{
  gpu_loads values(1024);
  for (std::size_t gpu = 0; gpu < values.size(); ++gpu) {
    values[gpu] = static_cast<double>(gpu * 37 % 1024);
  }
  std::string const chart = load_chart(values, gpu_loads(128, 1.0), "");
  EXPECT_TRUE(all(chart, "rect.before").empty());
  EXPECT_EQ(all(chart, "rect.after").size(), 128U);
  auto const areas = all(chart, "polygon");
  ASSERT_EQ(areas.size(), 1U);

  expect_sorted(areas.front());
}

TEST(LoadChart, HasBarsOfNoHeightWithoutWork)
{
  for (auto const& bar : all(load_chart(gpu_loads{0, 0}, gpu_loads{0, 0}, "s"), "rect.before")) {
    EXPECT_EQ(bar.number("height"), 0);
  }
}

// ---- Gantt chart --------------------------------------------------------------------------------

std::vector<gantt_bar> const bars_before = {{rank_id{1}, 0, 10, "sample 1"},
                                            {rank_id{0}, 2, 1, "sample 2"},
                                            {rank_id{0}, 0, 2, "sample 0"}};
std::vector<gantt_bar> const bars_after = {{rank_id{0}, 0, 4, "sample 0"},
                                           {rank_id{1}, 0, 5, "<b>"}};

TEST(GanttChart, SharesOneTimeScale)  // Ensures (1)
{
  auto const elements = parse(gantt_chart(bars_before, bars_after, 2, "s"));
  auto const left = all(elements, ".before");
  auto const right = all(elements, ".after");
  ASSERT_EQ(left.size(), 3U);
  ASSERT_EQ(right.size(), 2U);
  EXPECT_EQ(left[0].number("x"), 76);
  EXPECT_NEAR(left[0].number("width"), 0.2 * 392, 0.0051);
  EXPECT_NEAR(left[1].number("x"), 76 + 0.2 * 392, 0.0051);
  EXPECT_NEAR(left[2].number("width"), 392, 0.0051);
  EXPECT_NEAR(right[1].number("width"), 0.5 * 392, 0.0051);
}

TEST(GanttChart, ShowsWaitingUntilTheLastGpuIsDone)
{
  auto const waiting = all(gantt_chart(bars_before, bars_after, 3, "s"), ".waiting");
  ASSERT_EQ(waiting.size(), 6U);  // the third GPU has no bars and waits all the time
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_NEAR(waiting[row].number("width"), 392, 0.0051);
    EXPECT_NEAR(waiting[3 + row].number("width"), 196, 0.0051);
  }
}

TEST(GanttChart, SaysWhatABarStandsForAndHowLongItIs)
{
  auto const elements = parse(gantt_chart(bars_before, bars_after, 2, "s"));
  EXPECT_THAT(all(elements, "title").back().text, HasSubstr("GPU 1, <b>: 5\u00A0s"));
  auto const bars = all(elements, ".before");
  EXPECT_TRUE(bars[1].has_class("tone-0"));
  EXPECT_TRUE(bars[2].has_class("tone-3"));
}

TEST(GanttChart, DrawsThinNeighboursAsOne)
{
  std::vector<gantt_bar> thin;
  for (int sample = 0; sample < 10'000; ++sample) {
    thin.push_back({rank_id{0}, sample * 1.0, 1, "sample"});
  }
  std::string const chart = gantt_chart(thin, thin, 1, "s");
  auto const bars = all(chart, ".before");
  EXPECT_LE(bars.size(), 2 * 392 / 0.8 + 1);
  double covered = 0;
  for (auto const& bar : bars) { covered += bar.number("width"); }
  EXPECT_NEAR(covered, 392, 0.01 * static_cast<double>(bars.size()));
  EXPECT_THAT(chart, HasSubstr("bars: "));
}

TEST(GanttChart, ShowsTheBusiestOfManyGpus)  // Ensures (2)
{
  std::vector<gantt_bar> many;
  for (std::size_t gpu = 0; gpu < 1024; ++gpu) {
    many.push_back(
        {ballast::to_id<rank_id>(gpu), 0, 1 + static_cast<double>(gpu * 389 % 1024), ""});
  }
  auto const elements = parse(gantt_chart(many, many, many.size(), "s"));
  auto const bars = all(elements, ".before");
  ASSERT_EQ(bars.size(), 64U);
  EXPECT_NEAR(bars.front().number("width"), 392, 0.0051);
  EXPECT_NEAR(bars.back().number("width"), 392 / 1024.0, 0.0051);
  for (std::size_t row = 1; row < bars.size(); ++row) {
    EXPECT_LT(bars[row].number("width"), bars[row - 1].number("width"));
  }
}

// ---- Histogram chart ----------------------------------------------------------------------------

// The bars without the legend's swatch, which has no tooltip and comes first.
std::vector<element> bars(std::string const& chart)
{
  auto found = all(chart, "rect.samples");
  found.erase(found.begin());
  return found;
}

std::vector<length_bin> const bins = {{64, 127, 30}, {128, 255, 0}, {256, 511, 10}};
std::vector<double> const work = {1, 0, 7};

TEST(HistogramChart, DrawsSharesInProportion)  // Ensures (1)
{
  // The work's 87.5 % is the highest share, so that 1 % is 216 / (1.06 * 87.5) units high.
  double const percent = 216 / (1.06 * 87.5);
  auto const drawn = bars(histogram_chart(bins, work));
  ASSERT_EQ(drawn.size(), 3U);
  EXPECT_NEAR(drawn[0].number("height"), 75 * percent, 0.0051);
  EXPECT_EQ(drawn[1].number("height"), 0);
  EXPECT_NEAR(drawn[2].number("height"), 25 * percent, 0.0051);

  auto const lines = all(histogram_chart(bins, work), "polyline");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NEAR(56 + 216 - corners(lines.front()).back().second, 87.5 * percent, 0.0051);
}

TEST(HistogramChart, SaysWhatABarStandsFor)
{
  auto const titles = all(histogram_chart(bins, work), "title");
  EXPECT_EQ(titles.front().text, "64 to 127 tokens: 30 samples (75.0 %), 12.5 % of the work");
}

TEST(HistogramChart, HasNoLineWhereWorkIsUnknown)  // Ensures (2)
{
  auto const elements = parse(histogram_chart(std::vector<length_bin>{{1, 1, 3}}));
  EXPECT_TRUE(all(elements, ".work").empty());
}

TEST(HistogramChart, ShowsSamplesOfLengthZero)
{
  auto const drawn = bars(histogram_chart(std::vector<length_bin>{{0, 0, 5}, {1, 19, 5}}));
  EXPECT_GT(drawn[0].number("width"), 10);
  EXPECT_GE(drawn[0].number("x"), 76);
}

TEST(HistogramChart, NamesDifferentLengthsWhereAllAreAlike)
{
  auto const chart = parse(histogram_chart(std::vector<length_bin>{{1000, 1000, 7}}));
  std::set<std::string> seen;
  for (auto const& text : all(chart, ".tick")) {
    EXPECT_TRUE(seen.insert(text.text).second) << "twice: " << text.text;
  }
  EXPECT_GE(seen.size(), 4U);
}

// ---- Cost chart ---------------------------------------------------------------------------------

std::vector<cost_point> const model = {{0, 0, 0}, {100, 10, 5}, {200, 20, 20}};

// Where the chart must put a point: the longest of all is 200, the highest 40.
std::pair<double, double> expected(double length, double cost)
{
  return {76 + 856 * length / 200, 56 + 216 * (1 - cost / (1.06 * 40))};
}

TEST(CostChart, StacksAttentionOnDenseLayers)  // Ensures (1)
{
  auto const shapes = all(cost_chart(model, {}, {}, "s"), "polygon");
  ASSERT_EQ(shapes.size(), 2U);
  auto const dense = corners(shapes[0]);
  auto const attention = corners(shapes[1]);
  ASSERT_EQ(dense.size(), 5U);
  ASSERT_EQ(attention.size(), 6U);
  for (std::size_t point = 0; point < model.size(); ++point) {
    auto const length = static_cast<double>(model[point].length);
    auto const lower = expected(length, model[point].linear);
    auto const upper = expected(length, model[point].linear + model[point].quadratic);
    EXPECT_NEAR(dense[point].first, lower.first, 0.0051);
    EXPECT_NEAR(dense[point].second, lower.second, 0.0051);
    EXPECT_NEAR(attention[point].second, upper.second, 0.0051);
    EXPECT_EQ(attention[5 - point].second, dense[point].second);
  }
}

TEST(CostChart, ShowsMeasurementsAndMarksBeyondTheModel)  // Ensures (2)
{
  std::vector<measured_cost> const measured = {{400, 90}};
  std::vector<length_mark> const marks = {{50, "shortest"}, {60, "median"}, {500, "longest"}};
  auto const elements = parse(cost_chart(model, measured, marks, "s"));
  auto const point = all(elements, "circle").front();
  EXPECT_LE(point.number("cx"), 76 + 856);
  EXPECT_GE(point.number("cy"), 56);
  auto const lines = all(elements, ".mark");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines.back().number("x1"), 76 + 856);
}

TEST(CostChart, PutsCloseMarksUnderEachOther)
{
  std::vector<length_mark> const marks = {{50, "shortest"}, {51, "median"}, {190, "longest"}};
  auto const names = all(cost_chart(model, {}, marks, "s"), ".halo");
  ASSERT_EQ(names.size(), 3U);
  EXPECT_EQ(names[1].text, "median 51");
  EXPECT_GE(names[1].number("y"), names[0].number("y") + 12);
  EXPECT_EQ(names[2].number("y"), names[0].number("y"));
  EXPECT_TRUE(names[2].has_class("end"));
}

// ---- Traffic chart ------------------------------------------------------------------------------

constexpr double plot_height = 216;
constexpr double second_panel = 500;  // everything right of it is of the panel Received

// Heights of the rectangles of a class in one panel, by the middle of their bar.
std::vector<double> heights(std::string const& chart, char const* which, bool received)
{
  std::map<double, double> by_place;
  for (auto const& bar : all(chart, which)) {
    if (bar.number("y") < 50) { continue; }  // the legend
    double const middle = bar.number("x") + bar.number("width") / 2;
    if ((middle > second_panel) == received) { by_place[middle] = bar.number("height"); }
  }
  std::vector<double> found;
  for (auto const& [place, height] : by_place) { found.push_back(height); }
  return found;
}

RC_GTEST_PROP(TrafficChart, StacksBytesInProportionOnOneScale, ())  // Ensures (1) (2)
{
  auto const draw = [] { return static_cast<tokens>(*rc::gen::inRange(1, 1000)); };
  route_volume volume;
  volume.ranks.resize(*rc::gen::inRange<std::size_t>(1, 40));
  tokens highest = 0;
  for (auto& rank : volume.ranks) {
    for (route_volume::traffic* const direction : {&rank.sent, &rank.received}) {
      *direction = {.within_node = draw(), .between_nodes = draw(), .messages = 1};
      highest = std::max(highest, direction->all());
    }
  }
  std::string const chart = traffic_chart(volume, 6144);
  for (bool const received : {false, true}) {
    auto const within = heights(chart, "rect.within", received);
    auto const between = heights(chart, "rect.between", received);
    RC_ASSERT(within.size() == volume.ranks.size());
    RC_ASSERT(between.size() == volume.ranks.size());
    for (std::size_t rank = 0; rank < volume.ranks.size(); ++rank) {
      auto const& direction = received ? volume.ranks[rank].received : volume.ranks[rank].sent;
      double const per_token = plot_height / 1.06 / static_cast<double>(highest);
      RC_ASSERT(std::abs(within[rank] - per_token * static_cast<double>(direction.within_node)) <=
                0.011);
      RC_ASSERT(std::abs(between[rank] -
                         per_token * static_cast<double>(direction.between_nodes)) <= 0.011);
    }
  }
}

TEST(TrafficChart, SaysWhatABarStandsFor)
{
  route_volume volume;
  volume.ranks.resize(2);
  volume.ranks[0].sent = {.within_node = 1000, .between_nodes = 500, .messages = 2};
  volume.ranks[1].received = {.within_node = 1000, .between_nodes = 0, .messages = 1};
  auto const elements = parse(traffic_chart(volume, 2));
  EXPECT_EQ(elements.front().attributes.at("aria-label"),
            "Bytes per GPU in one exchange: the busiest sends 3\u00A0kB, the busiest receives "
            "2\u00A0kB");
  EXPECT_THAT(texts(elements, "title"),
              ElementsAre("GPU 0 sends 3\u00A0kB in 2 messages, 1\u00A0kB between nodes",
                          "GPU 0 sends 3\u00A0kB in 2 messages, 1\u00A0kB between nodes",
                          "GPU 1 receives 2\u00A0kB in 1 message, 0 between nodes"));
}

TEST(TrafficChart, DrawsMoreThan128GpusAsSortedAreas)
{
  route_volume volume;
  volume.ranks.resize(1024);
  for (std::size_t rank = 0; rank < volume.ranks.size(); ++rank) {
    volume.ranks[rank].sent.between_nodes = static_cast<tokens>(rank * 37 % 1024);
  }
  auto const areas = all(traffic_chart(volume, 1), "polygon");
  ASSERT_EQ(areas.size(), 4U);  // two links in two panels
  EXPECT_TRUE(areas.front().has_class("between"));
  expect_sorted(areas.front());
}

TEST(TrafficChart, NamesWholeBytesOnly)  // Ensures (3)
{
  for (tokens const bytes : {1, 2, 4, 5, 7, 11}) {
    route_volume volume;
    volume.ranks.resize(1);
    volume.ranks[0].sent.within_node = bytes;
    std::string const chart = traffic_chart(volume, 1);
    EXPECT_THAT(chart, Not(HasSubstr("mB"))) << bytes;
    for (auto const& tick : all(chart, ".end")) {
      EXPECT_THAT(tick.text, Not(HasSubstr("."))) << bytes;
    }
  }
}

TEST(TrafficChart, SaysThatNothingMoves)
{
  route_volume still;
  still.ranks.resize(3);
  std::string const chart = traffic_chart(still, 6144);
  EXPECT_THAT(chart, AllOf(HasSubstr("Nothing moves"), Not(HasSubstr("bytes per GPU"))));
  EXPECT_TRUE(heights(chart, "rect.within", false).empty());
  EXPECT_TRUE(heights(chart, "rect.between", true).empty());
}

// ---- Pipeline chart -----------------------------------------------------------------------------

TEST(PipelineBars, AreTheTasksOfEveryRankInOrder)  // Ensures (1)
{
  auto const stages = ballast::chain_of_stages(2, 2);
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 2).value();
  pipeline_times times(2, 2);
  times.rows = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
  std::vector const order = {microbatch_id{1}, microbatch_id{0}};
  auto const bars = pipeline_bars(schedule, ballast::simulate(schedule, times, order), order, 0.5);
  // Rank 0: F1 0-5, F0 5-6, B1 20-26, B0 27-29. Rank 1: F1 5-12, B1 12-20, F0 20-23, B0 23-27.
  struct expected {
    unsigned rank, microbatch;
    pass kind;
    double start, end;
  };
  std::vector<expected> const wanted = {
      {0, 1, pass::forward, 0, 5},    {0, 0, pass::forward, 5, 6},   {0, 1, pass::backward, 20, 26},
      {0, 0, pass::backward, 27, 29}, {1, 1, pass::forward, 5, 12},  {1, 1, pass::backward, 12, 20},
      {1, 0, pass::forward, 20, 23},  {1, 0, pass::backward, 23, 27}};
  ASSERT_EQ(bars.size(), wanted.size());
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    pipeline_bar const& bar = bars[at];
    EXPECT_EQ(to_index(bar.rank), wanted[at].rank) << at;
    EXPECT_EQ(to_index(bar.stage), wanted[at].rank) << at;
    EXPECT_EQ(to_index(bar.microbatch), wanted[at].microbatch) << at;
    EXPECT_EQ(bar.pass, wanted[at].kind) << at;
    EXPECT_EQ(bar.start, wanted[at].start / 2) << at;
    EXPECT_EQ(bar.start + bar.duration, wanted[at].end / 2) << at;
  }
}

constexpr double plot_left = 76;
constexpr double plot_width = 856;

// Two ranks: 10 units as given, 8 as ordered.
std::vector<pipeline_bar> const given = {
    {pipeline_rank{0}, stage_id{0}, microbatch_id{7}, pass::forward, 0, 2},
    {pipeline_rank{0}, stage_id{0}, microbatch_id{7}, pass::backward, 8, 2},
    {pipeline_rank{1}, stage_id{1}, microbatch_id{7}, pass::forward, 2, 4}};
std::vector<pipeline_bar> const ordered = {
    {pipeline_rank{0}, stage_id{0}, microbatch_id{7}, pass::forward, 0, 8},
    {pipeline_rank{1}, stage_id{1}, microbatch_id{7}, pass::forward, 0, 8}};

TEST(PipelineChart, SharesOneTimeScale)  // Ensures (1)
{
  auto const elements = parse(pipeline_chart(given, ordered, 2, "s"));
  auto const light = all(elements, ".before");
  auto const strong = all(elements, ".tone-3");
  auto const after = all(elements, ".after");
  ASSERT_EQ(light.size(), 2U);
  ASSERT_EQ(strong.size(), 1U);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(light[0].number("x"), plot_left);
  EXPECT_NEAR(light[0].number("width"), 0.2 * plot_width, 0.0051);
  EXPECT_NEAR(light[1].number("x"), plot_left + 0.2 * plot_width, 0.0051);
  EXPECT_NEAR(strong[0].number("x"), plot_left + 0.8 * plot_width, 0.0051);
  EXPECT_NEAR(after[1].number("width"), 0.8 * plot_width, 0.0051);
  EXPECT_GT(light[1].number("y"), light[0].number("y"));
  EXPECT_GT(after[0].number("y"), light[1].number("y"));
}

TEST(PipelineChart, TellsForwardsFromBackwardsAndNamesMicrobatches)
{
  auto const elements = parse(pipeline_chart(given, ordered, 2, "s"));
  EXPECT_TRUE(all(elements, ".before")[0].has_class("tone-0"));
  EXPECT_EQ(all(elements, ".inside").size(), 5U);
  EXPECT_EQ(all(elements, ".on-ink").size(), 1U);
  for (auto const& label : all(elements, ".inside")) { EXPECT_EQ(label.text, "7"); }
  EXPECT_THAT(texts(elements, "title"),
              Contains("rank 0, stage 0, backward of microbatch 7: 2\u00A0s"));
}

TEST(PipelineChart, NamesTheUnitOfTimes)
{
  auto const named = [](char const* unit) {
    return texts(pipeline_chart(given, ordered, 2, unit), "text");
  };
  EXPECT_THAT(named(""), Contains("from the start of the step, in the unit of the times").Times(2));
  EXPECT_THAT(named("s"), Contains("from the start of the step").Times(2));
}

TEST(PipelineChart, MarksTheBound)  // Ensures (2)
{
  auto const marks = all(pipeline_chart(given, ordered, 2, "", 5), ".mark");
  ASSERT_EQ(marks.size(), 2U);
  for (auto const& mark : marks) {
    EXPECT_NEAR(mark.number("x1"), plot_left + 0.5 * plot_width, 0.0051);
  }
  EXPECT_TRUE(all(pipeline_chart(given, ordered, 2, ""), ".mark").empty());
}

TEST(PipelineChart, DoesNotGrowWithRanksAndMicrobatches)
{
  std::vector<pipeline_bar> many;
  for (std::size_t rank = 0; rank < 100; ++rank) {
    for (std::size_t task = 0; task < 4000; ++task) {
      many.push_back({ballast::to_id<pipeline_rank>(rank), ballast::to_id<stage_id>(rank),
                      ballast::to_id<microbatch_id>(task), pass::forward, static_cast<double>(task),
                      1});
    }
  }
  std::string const chart = pipeline_chart(many, many, 100, "");
  auto const elements = parse(chart);
  auto const names = texts(elements, ".end");
  EXPECT_EQ(names.size(), 64U);
  EXPECT_EQ(names.front(), "rank 0");
  EXPECT_EQ(names[31], "rank 99");
  auto const bars = all(elements, ".before");
  EXPECT_LE(bars.size(), 32 * (2 * plot_width / 1.5 + 1));
  EXPECT_THAT(chart, HasSubstr(" tasks: "));
  EXPECT_TRUE(all(elements, ".inside").empty());
}

// ---- Layout charts ------------------------------------------------------------------------------

std::string chart_of(std::vector<module_layout> const& modules, std::uint32_t gpus,
                     std::uint32_t per_node, std::vector<std::string> const& names)
{
  auto const places = ballast::place_layout(modules, gpus, per_node).value();
  return layout_chart(modules, names, places, per_node);
}

TEST(LayoutChart, DrawsABarForEveryGroup)  // Ensures (1)
{
  std::vector<module_layout> const modules{{1, 1, 4}, {2, 2, 3}};
  auto const elements = parse(chart_of(modules, 16, 8, {"vision", "llm"}));
  auto const bars = all(elements, ".after");
  ASSERT_EQ(bars.size(), 6U + 1) << "and one of the legend";
  EXPECT_NEAR(bars[1].number("width"), 2 * 856 / 8.0 - 2, 0.01);
  EXPECT_EQ(all(elements, ".before").size(), 4U + 1);
  auto const titles = texts(elements, "title");
  EXPECT_EQ(titles.size(), 10U);
  EXPECT_THAT(titles, Contains("llm, replica 1, stage 1: GPU 6 to 7"));
  EXPECT_THAT(titles, Contains("vision, replica 3, stage 0: GPU 15"));
  for (char const* const label : {"node 1", "r2 s1", "vision"}) {
    EXPECT_THAT(texts(elements, "text"), Contains(label));
  }
}

TEST(LayoutChart, LabelsWhatHasRoom)  // Ensures (2)
{
  std::vector<module_layout> const modules{{1, 1, 36}};
  auto const narrow = parse(chart_of(modules, 36, 36, {"llm"}));
  EXPECT_TRUE(all(narrow, ".inside").empty());
  EXPECT_EQ(all(narrow, ".before").size(), 37U);
}

TEST(LayoutChart, StaysBounded)
{
  std::vector<module_layout> const modules{{1, 1, 1000}};
  auto const elements = parse(chart_of(modules, 1000, 8, {"llm"}));
  EXPECT_EQ(all(elements, ".inside").size(), 8 * most_layout_nodes);
  EXPECT_THAT(elements.front().attributes.at("aria-label"), HasSubstr("1000 GPUs on 125 nodes"));
}

TEST(LayoutStepsChart, DrawsTwoBarsOfALayoutInProportion)  // Ensures (1)
{
  auto const elements = parse(layout_steps_chart({{1, 2}, {3, 4}}));
  auto const predicted = all(elements, ".before");
  auto const simulated = all(elements, ".after");
  ASSERT_EQ(predicted.size(), 2U);
  ASSERT_EQ(simulated.size(), 2U);
  double const highest = 216 / 1.06;
  EXPECT_NEAR(predicted[0].number("height"), highest / 4, 0.011);
  EXPECT_NEAR(simulated[1].number("height"), highest, 0.011);
  EXPECT_LT(predicted[1].number("x") + predicted[1].number("width"), simulated[1].number("x"));
  auto const titles = texts(elements, "title");
  EXPECT_THAT(titles, Contains("layout 2, simulated: 4\u00A0s"));
  EXPECT_THAT(elements.front().attributes.at("aria-label"), HasSubstr("takes 2\u00A0s"));
}

// ---- All of them --------------------------------------------------------------------------------

TEST(Charts, AreDrawnWithoutGpusSamplesAndWork)
{
  std::vector<gantt_bar> const nothing = {{rank_id{0}, 0, 0, "empty sample"}};
  for (std::string const& chart :
       {load_chart({}, {}, "s"), gantt_chart({}, {}, 0, "s"), gantt_chart({}, {}, 4, "s"),
        gantt_chart(nothing, nothing, 1, "s"), histogram_chart({}),
        histogram_chart(std::vector<length_bin>{{4, 4, 0}}), cost_chart({}, {}, {}, "s"),
        cost_chart(std::vector<cost_point>{{}}, {}, {}, ""), traffic_chart({}, 1)}) {
    EXPECT_NO_THROW((void)parse(chart)) << chart;
  }
}

}  // namespace
}  // namespace pages
