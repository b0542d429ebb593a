// SPDX-License-Identifier: Apache-2.0
// Text, numbers, colours, axes, shapes and bars: what charts are drawn with.

#include "../../../examples/ballast/pages/chart_style.hpp"
#include "../../../examples/ballast/pages/escaped_text.hpp"
#include "../../../examples/ballast/pages/number_text.hpp"
#include "../../../examples/ballast/pages/plot_frame.hpp"
#include "../../../examples/ballast/pages/step_bars.hpp"
#include "../../../examples/ballast/pages/svg.hpp"
#include "../../../examples/ballast/pages/visible_bars.hpp"
#include "markup.hpp"

#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/report.hpp>

namespace pages {
namespace {

// ---- Number text --------------------------------------------------------------------------------

TEST(GroupedText, PutsThreeDigitsInAGroup)
{
  EXPECT_EQ(grouped_text(0), "0");
  EXPECT_EQ(grouped_text(999), "999");
  EXPECT_EQ(grouped_text(1000), "1\u202F000");
  EXPECT_EQ(grouped_text(-123456), "-123\u202F456");
  EXPECT_EQ(grouped_text(1234567), "1\u202F234\u202F567");
}

TEST(SiText, ReadsAsPeopleWriteIt)  // Ensures (2)
{
  EXPECT_EQ(si_text(0, "s"), "0");
  EXPECT_EQ(si_text(0.0123, "s"), "12.3\u00A0ms");
  EXPECT_EQ(si_text(4.5e-5, "s"), "45\u00A0\u00B5s");
  EXPECT_EQ(si_text(3.2e12, "FLOP"), "3.2\u00A0TFLOP");
  EXPECT_EQ(si_text(16776, ""), "16.8k");
  EXPECT_EQ(si_text(200, ""), "200");
  EXPECT_EQ(si_text(999.9, "B"), "1\u00A0kB");
  EXPECT_EQ(si_text(-2500, ""), "-2.5k");
  EXPECT_EQ(si_text(1e-12, "s"), "1\u00A0ps");
  EXPECT_EQ(si_text(1.25e-13, "s"), "1.25e-13\u00A0s");
  EXPECT_EQ(si_text(9.994e20, "FLOP"), "999\u00A0EFLOP");
  EXPECT_EQ(si_text(1e21, "FLOP"), "1e21\u00A0FLOP");
}

TEST(SiText, HasNoKiloseconds)  // Ensures (3)
{
  EXPECT_EQ(si_text(999.4, "s"), "999\u00A0s");
  EXPECT_EQ(si_text(999.5, "s"), "1\u202F000\u00A0s");
  EXPECT_EQ(si_text(-12345, "s"), "-12\u202F300\u00A0s");
  EXPECT_EQ(si_text(999'400, "s"), "999\u202F000\u00A0s");
  EXPECT_EQ(si_text(999'500, "s"), "1e6\u00A0s");
  EXPECT_EQ(si_text(7.084e8, "s"), "7.08e8\u00A0s");
}

TEST(SiText, WritesPerCentWithoutAPrefix)  // Ensures (4)
{
  EXPECT_EQ(si_text(0.2, "%"), "0.2\u00A0%");
  EXPECT_EQ(si_text(0.000'05, "%"), "5e-05\u00A0%");
  EXPECT_EQ(si_text(100, "%"), "100\u00A0%");
  EXPECT_EQ(si_text(-999.9, "%"), "-1\u202F000\u00A0%");
  EXPECT_EQ(si_text(2e15, "%"), "2e+15\u00A0%");
}

RC_GTEST_PROP(SiText, IsWithinHalfAUnitOfTheThirdDigit, ())  // Ensures (1) (2)
{
  int const exponent = *rc::gen::inRange(-20, 28);
  double const mantissa = 1 + *rc::gen::inRange(0, 9'000'000) / 1e6;
  double const value = mantissa * std::pow(10.0, exponent);
  std::string const text = si_text(value, "");
  char* rest = nullptr;
  double const number = std::strtod(text.c_str(), &rest);
  std::string_view const prefix = rest;
  std::string_view const prefixes = "pn?m kMGTPE";
  int power = 0;
  if (prefix == "\u00B5") {
    power = -6;
  } else if (!prefix.empty()) {
    RC_ASSERT(prefix.size() == 1U && prefixes.find(prefix) != prefixes.npos);
    power = 3 * static_cast<int>(prefixes.find(prefix)) - 12;
  }
  double const read = number * std::pow(10.0, power);
  RC_ASSERT(std::abs(read - value) <= 0.500001e-2 * std::pow(10.0, exponent));
  if (text.find('e') == text.npos) { RC_ASSERT(number >= 1 && number < 1000); }
}

TEST(RatioText, LooksCloserNearOne)
{
  EXPECT_EQ(ratio_text(1), "1.000");
  EXPECT_EQ(ratio_text(1.0123), "1.012");
  EXPECT_EQ(ratio_text(28.114), "28.11");
  EXPECT_EQ(ratio_text(12345), "12.3k");
}

TEST(PercentText, KeepsAboutTwoDigitsAndNeverRoundsABoundDown)
{
  EXPECT_EQ(percent_text(0), "0\u00A0%");
  EXPECT_EQ(percent_text(0.4567), "46\u00A0%");
  EXPECT_EQ(percent_text(0.0123), "1.2\u00A0%");
  EXPECT_EQ(percent_text(0.00123), "0.12\u00A0%");
  EXPECT_EQ(percent_text(0.000123), "0.012\u00A0%");
  EXPECT_EQ(percent_text(0.0121, true), "1.3\u00A0%");
}

// ---- Escaped text -------------------------------------------------------------------------------

TEST(EscapedText, IsReadBackByAParser)  // Ensures (1) (3)
{
  std::string const text =
      "<script>\"a\" & 'b'</script> tab\tline\nGr\u00FC\u00DFe \u4F60 \U0001F4CA \U0010FFFF";
  std::string const escaped = escaped_text(text);
  EXPECT_EQ(escaped.find_first_of("<>\"'"), std::string::npos);
  auto const read = parse("<a b=\"" + escaped + "\">" + escaped + "</a>").front();
  EXPECT_EQ(read.text, text);
  EXPECT_EQ(read.attributes.at("b"), text);
}

TEST(EscapedText, ReplacesControlCharactersAndBrokenBytes)  // Ensures (2)
{
  EXPECT_EQ(escaped_text(std::string_view("a\0b", 3)), "a\uFFFDb");
  EXPECT_EQ(escaped_text("\x1B[31m\xC0\xAF"), "\uFFFD[31m\uFFFD\uFFFD");
  EXPECT_EQ(escaped_text("\xE4\xBD"), "\uFFFD\uFFFD") << "cut off";
}

// ---- Chart style --------------------------------------------------------------------------------

using palette = std::map<std::string, std::string>;

// The custom properties of the `which`-th :root block: 0 is light, 1 is dark.
palette colours(int which)
{
  std::string const style(chart_style);
  std::size_t block = style.find(":root");
  for (; which > 0; --which) { block = style.find(":root", block + 1); }
  std::string const body = style.substr(block, style.find('}', block) - block);
  palette found;
  for (std::size_t at = body.find("--"); at != body.npos; at = body.find("--", at + 1)) {
    std::size_t const colon = body.find(':', at);
    found[body.substr(at, colon - at)] = body.substr(body.find('#', colon), 7);
  }
  return found;
}

// Relative luminance and contrast as WCAG 2.2 defines them.
double luminance(std::string const& colour)
{
  auto const channel = [&](std::size_t at) {
    double const value = std::stoi(colour.substr(at, 2), nullptr, 16) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

double contrast(std::string const& one, std::string const& other)
{
  auto const [dark, light] = std::minmax({luminance(one), luminance(other)});
  return (light + 0.05) / (dark + 0.05);
}

TEST(ChartStyle, IsReadableInLightAndDark)  // Ensures (1)
{
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-12);
  for (int const which : {0, 1}) {
    SCOPED_TRACE(which == 0 ? "light" : "dark");
    palette const of = colours(which);
    for (char const* const text : {"--ink", "--muted", "--before-ink", "--after-ink"}) {
      EXPECT_GE(contrast(of.at(text), of.at("--card")), 4.5) << text;
      EXPECT_GE(contrast(of.at(text), of.at("--page")), 4.5) << text;
    }
    for (char const* const area : {"--before", "--after", "--samples", "--work"}) {
      EXPECT_GE(contrast(of.at(area), of.at("--card")), 3) << area;
    }
  }
}

TEST(ChartStyle, IsReadableInsideBars)  // Ensures (2)
{
  for (int const which : {0, 1}) {
    SCOPED_TRACE(which == 0 ? "light" : "dark");
    palette const of = colours(which);
    for (std::string const name : {"--before", "--after"}) {
      std::string lightest = "#";
      for (std::size_t const at : {1U, 3U, 5U}) {
        auto const channel = [at](std::string const& colour) {
          return std::stoi(colour.substr(at, 2), nullptr, 16);
        };
        constexpr double opacity = 0.4;  // of .tone-0
        auto const mixed = static_cast<int>(
            std::lround(opacity * channel(of.at(name)) + (1 - opacity) * channel(of.at("--card"))));
        constexpr std::string_view digits = "0123456789abcdef";
        (lightest += digits[static_cast<std::size_t>(mixed / 16)]) +=
            digits[static_cast<std::size_t>(mixed % 16)];
      }
      EXPECT_GE(contrast(of.at("--ink"), lightest), 4.5) << name;
      EXPECT_GE(contrast(of.at("--card"), of.at(name + "-ink")), 4.5) << name;
    }
  }
}

TEST(ChartStyle, HasEveryColourInBothModes)
{
  palette const light = colours(0);
  palette const dark = colours(1);
  EXPECT_EQ(light.size(), dark.size());
  for (auto const& [name, colour] : light) { EXPECT_TRUE(dark.contains(name)) << name; }
}

TEST(StandaloneSvg, CarriesItsStyle)
{
  auto const elements = parse(standalone_svg("<svg viewBox=\"0 0 4 4\"><rect/></svg>"));
  ASSERT_EQ(elements.size(), 3U);
  EXPECT_EQ(elements[0].attributes.at("xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_EQ(elements[0].attributes.at("viewBox"), "0 0 4 4");
  EXPECT_EQ(elements[1].name, "style");
  EXPECT_EQ(elements[2].name, "rect");
}

// ---- Svg ----------------------------------------------------------------------------------------

svg_drawing drawing_of_everything()
{
  svg_drawing drawing(320, 80.5, "loads of \"A\" & B");
  std::vector<svg_drawing::point> const corners = {{0, 0}, {10, 2.25}, {20.005, 0}};
  drawing.rectangle({1, 2, 3, 4}, "before", "GPU <0>");
  drawing.rectangle({1, 2, 3, 4}, "waiting");
  drawing.circle({5, 5}, 3, "measured", "7 s");
  drawing.line({0, 0}, {-1.5, 9}, "grid");
  drawing.polyline(corners, "work");
  drawing.polygon(corners, "after", "all of it");
  drawing.text({4, 4}, "tick end", "5 < 7");
  return drawing;
}

TEST(SvgDrawing, IsOneWellFormedElementWithADescription)  // Ensures (1)
{
  auto const elements = parse(drawing_of_everything().markup());
  EXPECT_EQ(elements.front().name, "svg");
  EXPECT_EQ(elements.front().attributes.at("role"), "img");
  EXPECT_EQ(elements.front().attributes.at("aria-label"), "loads of \"A\" & B");
  EXPECT_EQ(elements.front().attributes.at("viewBox"), "0 0 320 80.5");
}

TEST(SvgDrawing, EscapesTextAndTooltips)  // Ensures (2)
{
  auto const elements = parse(drawing_of_everything().markup());
  EXPECT_EQ(all(elements, "title").front().text, "GPU <0>");
  EXPECT_EQ(all(elements, "text").front().text, "5 < 7");
}

TEST(SvgDrawing, WritesPathsAsPoints)
{
  auto const elements = parse(drawing_of_everything().markup());
  EXPECT_EQ(all(elements, "polyline").front().attributes.at("points"), "0,0 10,2.25 20.01,0");
}

RC_GTEST_PROP(SvgDrawing, RoundsCoordinatesToHundredths, ())  // Ensures (2)
{
  double const value = *rc::gen::inRange(-100'000'000, 100'000'000) / 7919.0;
  svg_drawing drawing(1, 1, "");
  drawing.circle({value, 0}, 1, "measured");
  std::string const written = all(drawing.markup(), "circle").front().attributes.at("cx");
  RC_ASSERT(std::abs(std::stod(written) - value) <= 0.005 + 1e-9);
  RC_ASSERT(written != "-0");
  auto const point = written.find('.');
  RC_ASSERT(point == written.npos || (written.size() - point <= 3 && written.back() != '0'));
}

// ---- Plot frame ---------------------------------------------------------------------------------

void expect_ticks(axis const& made, std::vector<double> const& expected)
{
  EXPECT_THAT(std::vector<double>(made.ticks().begin(), made.ticks().end()),
              Pointwise(DoubleEq(), expected));
}

TEST(LinearAxis, NamesRoundValues)  // Ensures (2)
{
  expect_ticks(axis::linear(32, 8), {0, 5, 10, 15, 20, 25, 30});
  expect_ticks(axis::linear(1.59, 5), {0, 0.5, 1, 1.5});
  expect_ticks(axis::linear(10, 5), {0, 2, 4, 6, 8, 10});
  expect_ticks(axis::linear(1, 1), {0, 1});
}

TEST(LinearAxis, EndsAtOneWhereAllIsZero)  // Ensures (1)
{
  axis const made = axis::linear(0, 5);
  EXPECT_EQ(made.highest(), 1);
  EXPECT_EQ(made.fraction(0), 0);
  EXPECT_EQ(axis::linear(5e-324, 5).highest(), 1);
}

// Oracle: among all round steps, the finest with few enough intervals.
double finest_step(double highest, std::size_t intervals)
{
  for (int exponent = -40; exponent <= 40; ++exponent) {
    for (double const digit : {1.0, 2.0, 5.0}) {
      double const step = digit * std::pow(10.0, exponent);
      if (highest / step <= static_cast<double>(intervals) * (1 + 1e-12)) { return step; }
    }
  }
  return 0;
}

RC_GTEST_PROP(LinearAxis, TakesTheFinestRoundStep, ())  // Ensures (1) (2)
{
  double const highest =
      (1 + *rc::gen::inRange(0, 900) / 100.0) * std::pow(10.0, *rc::gen::inRange(-29, 29));
  auto const intervals = *rc::gen::inRange<std::size_t>(1, 12);
  axis const made = axis::linear(highest, intervals);
  double const step = finest_step(highest, intervals);
  RC_ASSERT(made.fraction(0) == 0);
  RC_ASSERT(made.fraction(highest) == 1);
  RC_ASSERT(std::abs(made.ticks().back() - std::floor(highest / step * (1 + 1e-12)) * step) <=
            1e-9 * highest);
  for (std::size_t tick = 0; tick < made.ticks().size(); ++tick) {
    double const expected = static_cast<double>(tick) * step;
    RC_ASSERT(std::abs(made.ticks()[tick] - expected) <= 1e-9 * highest);
    RC_ASSERT(made.ticks()[tick] <= highest);
  }
}

TEST(LogarithmicAxis, NamesOneTwoAndFiveOfEachDecade)  // Ensures (3)
{
  expect_ticks(axis::logarithmic(64, 2000), {100, 200, 500, 1000, 2000});
  expect_ticks(axis::logarithmic(0.7, 100'000), {1, 10, 100, 1000, 10'000, 100'000});
}

TEST(LogarithmicAxis, NamesLinearStepsInANarrowRange)  // Ensures (3)
{
  expect_ticks(axis::logarithmic(300, 760), {300, 400, 500, 600, 700});
  expect_ticks(axis::logarithmic(150, 900), {200, 400, 600, 800});
  expect_ticks(axis::logarithmic(510, 529), {510, 515, 520, 525});
}

RC_GTEST_PROP(LogarithmicAxis, KeepsTicksWithinAndIncreasing, ())  // Ensures (2)
{
  double const lowest = std::pow(10.0, *rc::gen::inRange(-300, 250) / 10.0);
  double const highest = lowest * (1 + *rc::gen::inRange(1, 100'000) / 1000.0);
  axis const made = axis::logarithmic(lowest, highest);
  RC_ASSERT(!made.ticks().empty());
  RC_ASSERT(made.ticks().front() >= lowest);
  RC_ASSERT(made.ticks().back() <= highest);
  RC_ASSERT(std::ranges::adjacent_find(made.ticks(), std::ranges::greater_equal{}) ==
            made.ticks().end());
}

plot_frame const frame{{76, 20, 100, 50}, axis::linear(10, 5), axis::linear(4000, 4)};

TEST(PlotFrame, PutsTheEndsOfTheAxesInTheCorners)  // Ensures (1)
{
  EXPECT_EQ(frame.at(0, 0).x, 76);
  EXPECT_EQ(frame.at(0, 0).y, 70);
  EXPECT_EQ(frame.at(10, 4000).x, 176);
  EXPECT_EQ(frame.at(10, 4000).y, 20);
}

TEST(PlotFrame, DrawsWithinItsMargins)  // Ensures (2)
{
  svg_drawing drawing(204, 106, "");
  frame.draw_up(drawing, "cost", "s");
  frame.draw_across(drawing, "length", "");
  for (auto const& text : all(drawing.markup(), "text")) {
    EXPECT_GE(text.number("x"), 0) << text.text;
    EXPECT_LE(text.number("x"), 204) << text.text;
    EXPECT_GE(text.number("y"), 8) << text.text;
    EXPECT_LE(text.number("y"), 106) << text.text;
  }
}

TEST(PlotFrame, NamesValuesWithTheirUnit)
{
  svg_drawing drawing(200, 100, "");
  frame.draw_up(drawing, "cost", "s");
  EXPECT_THAT(texts(drawing.markup(), ".tick"),
              ElementsAre("0", "1\u202F000\u00A0s", "2\u202F000\u00A0s", "3\u202F000\u00A0s",
                          "4\u202F000\u00A0s"));
}

// ---- Visible bars -------------------------------------------------------------------------------

struct bar {
  double start = 0;
  double duration = 0;
};

std::vector<visible_bar> visible(std::vector<bar> const& bars, std::vector<std::size_t> const& row)
{
  std::vector<visible_bar> all;
  for_each_visible_bar(bars, row, 1, [&](visible_bar const& each) { all.push_back(each); });
  return all;
}

std::vector<std::size_t> numbers(std::vector<bar> const& bars)
{
  std::vector<std::size_t> row(bars.size());
  std::iota(row.begin(), row.end(), std::size_t{0});
  return row;
}

TEST(VisibleBars, AreTheBarsWhereAllCanBeSeen)
{
  std::vector<bar> const bars = {{0, 2}, {2, 1}, {7, 3}};
  auto const row = numbers(bars);
  auto const shown = visible(bars, row);
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[2].start, 7);
  EXPECT_EQ(shown[2].end, 10);
  EXPECT_TRUE(visible(bars, {}).empty());
}

TEST(VisibleBars, HoldEveryBarOnceAndAreBounded)  // Ensures (1) (2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<bar> bars;
    double now = 0;
    for (std::size_t count = random.below(200); count > 0; --count) {
      now += static_cast<double>(random.below(3)) / 8;
      bars.push_back({now, static_cast<double>(random.below(12)) / 8});
      now += bars.back().duration;
    }
    auto const row = numbers(bars);
    auto const shown = visible(bars, row);
    std::size_t at = 0;
    for (std::size_t each = 0; each < shown.size(); ++each) {
      ASSERT_FALSE(shown[each].of.empty());
      ASSERT_EQ(shown[each].of.front(), at);
      at += shown[each].of.size();
      ASSERT_EQ(shown[each].end, bars[at - 1].start + bars[at - 1].duration);
      if (shown[each].of.size() > 1) { ASSERT_LT(shown[each].end - shown[each].start, 1); }
      if (each > 0) { ASSERT_GE(shown[each].end - shown[each - 1].start, 1); }
    }
    ASSERT_EQ(at, bars.size());
  }
}

// ---- Step bars ----------------------------------------------------------------------------------

auto a_bar(std::uint32_t gpu, double start, double duration, char const* label)
{
  return AllOf(Field(&gantt_bar::gpu, rank_id{gpu}), Field(&gantt_bar::start, DoubleEq(start)),
               Field(&gantt_bar::duration, DoubleEq(duration)), Field(&gantt_bar::label, label));
}

ballast::sample_batch three_samples()
{
  return {.lengths = {10, 20, 30}, .source = {rank_id{0}, rank_id{0}, rank_id{2}}, .rows = {}};
}

TEST(BarsAsRead, PutEverySampleOnItsSourceBehindTheOnesBefore)
{
  std::vector<cost_units> const costs{4, 2, 8};
  auto const bars = bars_as_read(three_samples(), costs, 3, 0.5);
  EXPECT_THAT(bars, ElementsAre(a_bar(0, 0, 2, "sample 0, 10 tokens"),
                                a_bar(0, 2, 1, "sample 1, 20 tokens"),
                                a_bar(2, 0, 4, "sample 2, 30 tokens")));
  EXPECT_THAT(work_per_gpu(bars, 3), ElementsAre(3, 0, 4));
}

TEST(BarsAsPlanned, ShareEverySampleOverTheGpusOfItsBag)
{
  ballast::bag_layout const bags(std::vector<ballast::bag>{{rank_id{0}, 1}, {rank_id{1}, 2}});
  auto const batch = three_samples();
  auto const plan = ballast::partition(
      batch.lengths, bags, [](tokens length) { return 2 * length; }, {}, ballast::round_robin{});
  ASSERT_TRUE(plan);
  auto const bars = bars_as_planned(*plan, bags, batch.lengths, 0.5);
  EXPECT_THAT(bars, ElementsAre(a_bar(0, 0, 10, "sample 0, 10 tokens"),
                                a_bar(1, 0, 10, "sample 1, 20 tokens over 2 GPUs"),
                                a_bar(2, 0, 10, "sample 1, 20 tokens over 2 GPUs"),
                                a_bar(0, 10, 30, "sample 2, 30 tokens")));
  // What the bars add up to is what the plan says: loads of 80 on one GPU and 40 on two.
  EXPECT_THAT(plan->loads, ElementsAre(80, 40));
  EXPECT_THAT(work_per_gpu(bars, 3), ElementsAre(40.0, 10.0, 10.0));
}

RC_GTEST_PROP(StepBars, AddUpToTheFiguresAtAnySpeeds, ())
{
  auto const speeds = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 100)));
  auto const lengths = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<tokens>>(rc::gen::inRange<tokens>(8, 1000)));
  std::size_t const gpus = speeds.size();
  ballast::sample_batch batch{.lengths = lengths, .source = {}, .rows = {}};
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    batch.source.push_back(ballast::to_id<rank_id>(sample % gpus));
  }
  std::vector<ballast::bag> pairs;  // and the last GPU alone, where there is one
  for (std::size_t rank = 0; rank < gpus; rank += 2) {
    pairs.push_back({ballast::to_id<rank_id>(rank), rank + 1 < gpus ? 2U : 1U});
  }
  ballast::bag_layout const bags(pairs, speeds);
  auto const plan = ballast::partition(
      lengths, bags, [](tokens length) { return length; }, {}, ballast::round_robin{});
  RC_ASSERT(plan.has_value());

  auto const read = work_per_gpu(bars_as_read(batch, lengths, gpus, 1.0, speeds), gpus);
  auto const planned = work_per_gpu(bars_as_planned(*plan, bags, lengths, 1.0), gpus);
  auto const before = ballast::report::measure_as_read(batch, lengths, gpus, speeds);
  auto const after = ballast::report::measure_balance(plan->loads, bags.speeds());
  auto const near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * (1 + b); };
  RC_ASSERT(near(*std::max_element(read.begin(), read.end()), before.heaviest));
  RC_ASSERT(near(*std::min_element(read.begin(), read.end()), before.lightest));
  RC_ASSERT(near(*std::max_element(planned.begin(), planned.end()), after.heaviest));
  RC_ASSERT(near(*std::min_element(planned.begin(), planned.end()), after.lightest));
  RC_ASSERT(near(plan->makespan.value(), after.heaviest));
}

TEST(BarsAsPlanned, MakeSamplesOfAPaddedBatchAsLongAsTheLongest)
{
  auto const batch = three_samples();
  auto const plan = ballast::partition(
      batch.lengths, ballast::one_gpu_bags(2), [](tokens length) { return length; }, {},
      ballast::padded_batches{});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->loads, ElementsAre(30, 40));
  auto const bars = bars_as_planned(*plan, ballast::one_gpu_bags(2), batch.lengths, 1.0);
  EXPECT_THAT(bars, ElementsAre(a_bar(1, 0, 20, "sample 0, 10 tokens"),
                                a_bar(1, 20, 20, "sample 1, 20 tokens"),
                                a_bar(0, 0, 30, "sample 2, 30 tokens")));
}

TEST(BarsAsPlanned, GiveSamplesThatPadAttentionTheLargestPartOfTheirBatch)
{
  // 60 is alone on two GPUs. 20 and 30 cost 50 + 2 x 900, of which 20 + 900 are the former's.
  std::vector<tokens> const lengths{20, 60, 30};
  ballast::bag_layout const bags(std::vector<ballast::bag>{{rank_id{0}, 1}, {rank_id{1}, 2}});
  auto const plan =
      ballast::partition(lengths, bags, ballast::quadratic_cost{.linear = 1, .quadratic = 1}, {},
                         ballast::attention_padded_batches{})
          .value();
  EXPECT_THAT(plan.loads, ElementsAre(1850, 3660));
  auto const bars = bars_as_planned(plan, bags, lengths, 1.0);
  EXPECT_THAT(bars, ElementsAre(a_bar(0, 0, 920, "sample 0, 20 tokens"),
                                a_bar(1, 0, 1830, "sample 1, 60 tokens over 2 GPUs"),
                                a_bar(2, 0, 1830, "sample 1, 60 tokens over 2 GPUs"),
                                a_bar(0, 920, 930, "sample 2, 30 tokens")));
}

}  // namespace
}  // namespace pages
