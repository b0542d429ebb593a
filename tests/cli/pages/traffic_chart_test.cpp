// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/traffic_chart.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace {

using ballast::rank_traffic;
using ballast::route_volume;
using ballast::tokens;
using pages::traffic_chart;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double plot_height = 216;
constexpr double second_panel = 500;  // everything right of it is of the panel Received

// Heights of the rectangles of a class in one panel, by the middle of their bar.
std::map<int, double> heights(std::string const& chart, char const* css_class, bool received)
{
  std::map<int, double> found;
  for (auto const& bar :
       markup::having_class(markup::named(markup::parse(chart), "rect"), css_class)) {
    if (bar.number("y") < 50) { continue; }  // the legend
    double const middle = bar.number("x") + bar.number("width") / 2;
    if ((middle > second_panel) == received) {
      found[static_cast<int>(std::lround(middle))] = bar.number("height");
    }
  }
  return found;
}

std::vector<double> values(std::map<int, double> const& by_place)
{
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
    for (rank_traffic* const direction : {&rank.sent, &rank.received}) {
      *direction = {.within_node = draw(), .between_nodes = draw(), .messages = 1};
      highest = std::max(highest, direction->all());
    }
  }
  std::string const chart = traffic_chart(volume, 6144);
  for (bool const received : {false, true}) {
    auto const within = values(heights(chart, "within", received));
    auto const between = values(heights(chart, "between", received));
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
  auto const elements = markup::parse(traffic_chart(volume, 2));
  EXPECT_EQ(elements.front().attributes.at("aria-label"),
            "Bytes per GPU in one exchange: the busiest sends 3\u00A0kB, the busiest receives "
            "2\u00A0kB");
  std::vector<std::string> titles;
  for (auto const& each : markup::named(elements, "title")) { titles.push_back(each.text); }
  EXPECT_THAT(titles, ElementsAre("GPU 0 sends 3\u00A0kB in 2 messages, 1\u00A0kB between nodes",
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
  auto const areas = markup::named(markup::parse(traffic_chart(volume, 1)), "polygon");
  ASSERT_EQ(areas.size(), 4U);  // two links in two panels
  EXPECT_TRUE(areas.front().has_class("between"));
  std::vector<double> tops;  // y of each corner: from the base line up, then only down again
  std::string const points = areas.front().attributes.at("points");
  for (std::size_t comma = points.find(','); comma != points.npos;
       comma = points.find(',', comma + 1)) {
    tops.push_back(std::stod(points.substr(comma + 1)));
  }
  EXPECT_TRUE(std::is_sorted(tops.begin() + 1, tops.end()));
  EXPECT_NEAR(tops[1], tops[0] - plot_height / 1.06, 0.0101);
}

TEST(TrafficChart, NamesWholeBytesOnly)  // Ensures (3)
{
  for (tokens const bytes : {1, 2, 4, 5, 7, 11}) {
    route_volume volume;
    volume.ranks.resize(1);
    volume.ranks[0].sent.within_node = bytes;
    std::string const chart = traffic_chart(volume, 1);
    EXPECT_THAT(chart, Not(HasSubstr("mB"))) << bytes;
    for (auto const& tick : markup::having_class(markup::parse(chart), "end")) {
      EXPECT_THAT(tick.text, Not(HasSubstr("."))) << bytes;
    }
  }
}

TEST(TrafficChart, SaysThatNothingMoves)
{
  EXPECT_NO_THROW((void)markup::parse(traffic_chart({}, 1)));
  route_volume still;
  still.ranks.resize(3);
  std::string const chart = traffic_chart(still, 6144);
  EXPECT_THAT(chart, AllOf(HasSubstr("Nothing moves"), Not(HasSubstr("bytes per GPU"))));
  EXPECT_TRUE(heights(chart, "within", false).empty());
  EXPECT_TRUE(heights(chart, "between", true).empty());
}

}  // namespace
