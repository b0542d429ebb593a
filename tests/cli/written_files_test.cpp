// SPDX-License-Identifier: Apache-2.0
// Files that calls write: plans, row by row, and timelines, event by event.

#include "program.hpp"

namespace written_files {

using ballast_test::csv_row;
using ballast_test::rows_of;
using nlohmann::json;

class BallastPlanFiles : public ballast_test::program_test {
 protected:
  void SetUp() override
  {
    program_test::SetUp();
    file("trace.csv", "tokens\n95\n20\n30\n41\n");
  }
  std::string const plan_ = "plan --length tokens --cost tokens --gpus 2 --trace trace.csv ";
};

TEST_F(BallastPlanFiles, AreJsonLinesWhereTheirNameSaysSo)
{
  ASSERT_EQ(run(plan_ + "--no-shuffle --plan plan.csv").exit_code, 0);
  ASSERT_EQ(run(plan_ + "--no-shuffle --plan plan.jsonl").exit_code, 0);
  std::istringstream lines(content("plan.jsonl"));
  std::size_t samples = 0;
  for (csv_row const& planned : rows_of(content("plan.csv"))) {
    std::string line;
    std::getline(lines, line);
    json expected;
    for (auto const& [column, value] : planned) { expected[column] = std::stoll(value); }
    EXPECT_EQ(json::parse(line), expected);
    EXPECT_EQ(planned.at("sample"), std::to_string(samples++));
  }
  EXPECT_EQ(samples, 4U);
}

TEST_F(BallastPlanFiles, AgreeWithTheOwnersInJson)
{
  for (std::string const more :
       {"--steps 3 --batch 4", "--steps 2 --batch 4 --microbatches 2", "--batch 4 --bags g2n1"}) {
    SCOPED_TRACE(more);
    json const owners = json_of(plan_ + more + " --plan plan.csv").at("owners");
    std::size_t samples = 0;
    for (json const& step : owners) { samples += step.at("samples").size(); }
    std::set<std::string> seen;
    for (csv_row const& each : rows_of(content("plan.csv"))) {
      json const& step = owners.at(std::stoul(each.at("step")));
      auto const& rows = step.at("samples");
      auto const at = static_cast<std::size_t>(
          std::find(rows.begin(), rows.end(), std::stoul(each.at("sample"))) - rows.begin());
      EXPECT_EQ(step.at("bags").at(at), std::stoul(each.at("bag")));
      EXPECT_EQ(step.contains("slots") ? step.at("slots").at(at).get<std::size_t>() : 0U,
                std::stoul(each.at("slot")));
      seen.insert(each.at("step") + "," + each.at("sample"));
    }
    EXPECT_EQ(seen.size(), samples);
  }
}

TEST_F(BallastPlanFiles, HaveEveryRowOnceInTheStepsOfAPass)
{
  file("seven.csv", "a\n1\n2\n3\n4\n5\n6\n7\n");
  for (std::string const how : {"", "--no-shuffle", "--microbatches 1"}) {
    SCOPED_TRACE(how);
    auto const owners = json_of(
                            "plan --gpus 1 --cost tokens --trace seven.csv --length a "
                            "--batch 3 --steps 6 " +
                            how)
                            .at("owners");
    ASSERT_EQ(owners.size(), 6U);
    for (std::size_t step = 0; step < 6; step += 3) {  // the first of a pass
      std::set<std::size_t> rows;
      for (std::size_t at = step; at < step + 3; ++at) {
        auto const& samples = owners.at(at).at("samples");
        EXPECT_EQ(samples.size(), at == step + 2 ? 1U : 3U);
        rows.insert(samples.begin(), samples.end());
      }
      EXPECT_EQ(rows.size(), 7U);
    }
  }
}

TEST_F(BallastPlanFiles, HaveTheTasksOfEveryRankInTheirOrder)
{
  json const plan = json_of("pipeline --durations " BALLAST_SOURCE_DIR
                            "/examples/pipeline_times.csv --plan tasks.csv");
  auto const rows = rows_of(content("tasks.csv"));
  EXPECT_EQ(rows.size(), 12U * 8 * 2);
  std::vector<unsigned long> order;
  double busy_until = 0;
  for (csv_row const& each : rows) {
    if (each.at("rank") != "0") { continue; }
    EXPECT_GE(std::stod(each.at("start")), busy_until);
    busy_until = std::stod(each.at("end"));
    if (each.at("pass") == "forward") { order.push_back(std::stoul(each.at("microbatch"))); }
  }
  EXPECT_EQ(plan.at("order"), json(order));
  EXPECT_EQ(plan.at("makespan"), busy_until);
}

class BallastTimelines : public ballast_test::program_test {
 protected:
  json events_of(std::string const& call) const
  {
    auto const result = run(call + " --timeline timeline.json");
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return json::parse(content("timeline.json")).at("traceEvents");
  }
};

TEST_F(BallastTimelines, HaveOneTrackPerGpuWhoseEventsNest)
{
  std::map<int, std::vector<std::pair<double, double>>> tracks;
  std::size_t named = 0;
  for (json const& event : events_of("plan " + ballast_test::mixed + "--bags g4n8 --steps 3")) {
    if (event.at("ph") == "M" && event.at("name") == "thread_name") { ++named; }
    if (event.at("ph") != "X") { continue; }
    double const start = event.at("ts");
    tracks[event.at("tid")].emplace_back(start, start + event.at("dur").get<double>());
  }
  EXPECT_EQ(named, 32U);
  ASSERT_EQ(tracks.size(), 32U);
  for (auto const& [track, intervals] : tracks) {
    for (auto const& [a, b] : intervals) {
      for (auto const& [c, d] : intervals) {
        bool const apart = b <= c + 1e-9 || d <= a + 1e-9;
        bool const inside = (a <= c + 1e-9 && d <= b + 1e-9) || (c <= a + 1e-9 && b <= d + 1e-9);
        ASSERT_TRUE(apart || inside) << "track " << track;
      }
    }
  }
  EXPECT_FALSE(events_of("plan --codes g2b4i256f1s0 --steps 1 --microbatches 2").empty());
}

TEST_F(BallastTimelines, HaveBothOrdersOfAPipelineWithATrackPerRank)
{
  file("crossed.csv",
       "microbatch,stage,forward,backward\n0,0,6.5,0\n1,0,1.5,0\n1,1,6.5,0\n0,1,1.5,0\n");
  std::map<std::pair<int, int>, std::vector<std::string>> tracks;
  std::map<int, double> ends;
  std::vector<std::string> names;
  for (json const& event : events_of("pipeline --durations crossed.csv")) {
    if (event.at("name") == "process_name") { names.push_back(event.at("args").at("name")); }
    if (event.at("ph") != "X") { continue; }
    int const process = event.at("pid");
    tracks[{process, event.at("tid")}].push_back(event.at("name"));
    ends[process] =
        std::max(ends[process], event.at("ts").get<double>() + event.at("dur").get<double>());
    EXPECT_EQ(event.at("args").at("stage"), event.at("tid"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"given", "ordered"}));
  ASSERT_EQ(tracks.size(), 4U);
  EXPECT_EQ((tracks[{0, 0}]), (std::vector<std::string>{"F 0", "F 1", "B 0", "B 1"}));
  EXPECT_THAT((tracks[{1, 1}]), testing::UnorderedElementsAre("F 1", "B 1", "F 0", "B 0"));
  EXPECT_DOUBLE_EQ(ends[0], 14.5e3);  // microseconds, where the file's unit is a millisecond
  EXPECT_DOUBLE_EQ(ends[1], 9.5e3);
}

}  // namespace written_files
