// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/chrome_trace.hpp>

#include "../support/test.hpp"

#include <nlohmann/json.hpp>

namespace {

using namespace ballast;
using ballast::report::chrome_trace;
using nlohmann::json;

json complete_events(json const& file)
{
  json found = json::array();
  for (json const& event : file.at("traceEvents")) {
    if (event.at("ph") == "X") { found.push_back(event); }
  }
  return found;
}

json parsed(chrome_trace const& trace)
{
  auto const text = trace.json();
  EXPECT_TRUE(text.has_value());
  return json::parse(text.value());
}

struct interval {
  std::uint32_t thread;
  std::int64_t start;
  std::int64_t end;
};

// Oracle: compares every pair.
bool all_nest(std::vector<interval> const& all)
{
  for (interval const& a : all) {
    for (interval const& b : all) {
      bool const apart = a.end <= b.start || b.end <= a.start;
      bool const inside =
          (a.start <= b.start && b.end <= a.end) || (b.start <= a.start && a.end <= b.end);
      if (a.thread == b.thread && !apart && !inside) { return false; }
    }
  }
  return true;
}

RC_GTEST_PROP(ChromeTrace, IsWrittenExactlyIfItsEventsNest, ())  // Ensures (2) (3)
{
  chrome_trace trace;
  std::vector<interval> all;
  for (auto count = *rc::gen::inRange(0, 8); count > 0; --count) {
    interval next{*rc::gen::inRange(0U, 2U), *rc::gen::inRange<std::int64_t>(0, 10), 0};
    next.end = next.start + *rc::gen::inRange<std::int64_t>(0, 6);
    trace.add(
        {{0, next.thread}, "event", "test", next.start * 1000, (next.end - next.start) * 1000});
    all.push_back(next);
  }
  auto const text = trace.json();
  RC_ASSERT(text.has_value() == all_nest(all));
  if (!text) {
    RC_ASSERT(text.error().position < all.size());
    return;
  }
  auto const read = complete_events(json::parse(*text));
  RC_ASSERT(read.size() == all.size());
  std::map<int, std::vector<std::pair<double, double>>> open;  // per track, outermost first
  for (json const& event : read) {
    double const start = event.at("ts");
    double const end = start + event.at("dur").get<double>();
    auto& around = open[event.at("tid")];
    while (!around.empty() && around.back().second <= start) { around.pop_back(); }
    bool const inside =
        around.empty() || (around.back().first <= start && end <= around.back().second);
    RC_ASSERT(inside);
    around.emplace_back(start, end);
  }
}

TEST(ChromeTrace, WritesNanosecondsExactly)  // Ensures (1)
{
  chrome_trace trace;
  trace.add({{0, 0}, "a", "c", 1'234'567'890'123'456'789, 1});
  trace.add({{0, 0}, "b", "c", 7, 1050});
  std::string const text = trace.json().value();
  EXPECT_NE(text.find(R"("ts":1234567890123456.789,"dur":0.001})"), text.npos) << text;
  EXPECT_NE(text.find(R"("ts":0.007,"dur":1.050})"), text.npos) << text;
}

TEST(ChromeTrace, PutsTheEarlierOfTwoEqualEventsAround)  // Ensures (3)
{
  chrome_trace trace;
  trace.add({{0, 0}, "innermost", "c", 0, 4});
  trace.add({{0, 0}, "earlier", "c", 0, 5});
  trace.add({{0, 0}, "later", "c", 0, 5});
  trace.add({{0, 0}, "step", "c", 0, 9});
  auto const events = complete_events(parsed(trace));
  EXPECT_EQ(events[0].at("name"), "step");
  EXPECT_EQ(events[1].at("name"), "earlier");
  EXPECT_EQ(events[2].at("name"), "later");
  EXPECT_EQ(events[3].at("name"), "innermost");
}

TEST(ChromeTrace, NamesAndOrdersProcessesAndTracks)  // Ensures (4)
{
  chrome_trace trace;
  trace.name_process(1, "after");
  trace.name_track({1, 12}, "GPU 12");
  std::map<std::string, json> metadata;
  json const file = parsed(trace);
  for (json const& event : file.at("traceEvents")) {
    EXPECT_EQ(event.at("ph"), "M");
    EXPECT_EQ(event.at("pid"), 1);
    metadata[event.at("name")] = event;
  }
  EXPECT_EQ(metadata.at("process_name").at("args").at("name"), "after");
  EXPECT_EQ(metadata.at("process_sort_index").at("args").at("sort_index"), 1);
  EXPECT_EQ(metadata.at("thread_name").at("args").at("name"), "GPU 12");
  EXPECT_EQ(metadata.at("thread_name").at("tid"), 12);
  EXPECT_EQ(metadata.at("thread_sort_index").at("args").at("sort_index"), 12);
}

TEST(ChromeTrace, EscapesNamesAndShowsArguments)
{
  chrome_trace trace;
  trace.name_track({0, 3}, "GPU \"3\"");
  trace.add({{0, 3}, "sample\n\xFF", "a\\b", 0, 1}, {{"tokens", 4488}, {"\"", -1}});
  auto const file = parsed(trace);
  auto const event = complete_events(file).at(0);
  EXPECT_EQ(event.at("name"), "sample\n\uFFFD");
  EXPECT_EQ(event.at("cat"), "a\\b");
  EXPECT_EQ(event.at("tid"), 3);
  EXPECT_EQ(event.at("args"), (json{{"tokens", 4488}, {"\"", -1}}));
}

TEST(ChromeTrace, SaysWhichEventsOverlap)
{
  chrome_trace trace;
  trace.add({{1, 2}, "a", "c", 0, 5'000});
  trace.add({{1, 3}, "elsewhere", "c", 4'000, 5'000});
  trace.add({{1, 2}, "b", "c", 4'000, 5'000});
  auto const text = trace.json();
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(text.error().position, 2U);
  EXPECT_EQ(text.error().message,
            "process 1, track 2: event 2 (4.000 to 9.000 us) begins inside event 0 (0.000 to 5.000 "
            "us) and ends after it; end it earlier or give it a track of its own");
}

TEST(ChromeTraceDeathTest, RefusesTimesThatAreNone)
{
  chrome_trace trace;
  EXPECT_DEATH(trace.add({{0, 0}, "a", "c", -1, 1}), "starts at -1 ns and lasts 1 ns");
  EXPECT_DEATH(trace.add({{0, 0}, "a", "c", 1, -1}), "starts at 1 ns and lasts -1 ns");
  EXPECT_DEATH(trace.add({{0, 0}, "a", "c", 1, std::numeric_limits<std::int64_t>::max()}),
               "its end does not fit 64 bits");
}

TEST(ChromeTrace, ShowsAStepAndItsSamples)
{
  // [trace]
  ballast::report::chrome_trace trace;
  trace.name_process(0, "after balancing");
  trace.name_track({.process = 0, .thread = 3}, "GPU 3");
  trace.add({{0, 3}, "step 0", "step", 0, 9'000'000});
  trace.add({{0, 3}, "sample 17", "sample", 0, 6'500'000}, {{"tokens", 4488}});
  trace.add({{0, 3}, "sample 4", "sample", 6'500'000, 2'500'000}, {{"tokens", 1903}});
  ballast::result<std::string> const text = trace.json();
  // [trace]
  EXPECT_EQ(complete_events(json::parse(text.value())).size(), trace.size());
}

}  // namespace
