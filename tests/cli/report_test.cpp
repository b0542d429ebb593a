// SPDX-License-Identifier: Apache-2.0
// `ballast report` on logs that a step_log wrote; calls/report.calls has the rest.

#include "program.hpp"

#include <ballast/report.hpp>

namespace report_command {

using testing::HasSubstr;

using numbers = std::vector<std::int64_t>;

struct entry {
  numbers lengths, costs, owner, loads, speeds, makespan, bound, measured;
};

bool append(ballast::report::step_log& log, entry const& each)
{
  std::vector<ballast::bag_id> owner;
  for (auto const bag : each.owner) {
    owner.push_back(ballast::to_id<ballast::bag_id>(static_cast<std::size_t>(bag)));
  }
  std::vector<std::uint32_t> const speeds(each.speeds.begin(), each.speeds.end());
  return log
      .append({.step = 1,
               .lengths = each.lengths,
               .costs = each.costs,
               .owner = owner,
               .loads = each.loads,
               .speeds = speeds,
               .makespan = {each.makespan[0], each.makespan[1]},
               .lower_bound = {each.bound[0], each.bound[1]},
               .measured_ns = each.measured})
      .has_value();
}

entry const good{{9, 8}, {81, 64}, {0, 1}, {81, 64}, {1, 1}, {81, 1}, {81, 1}, {5, 4}};

class BallastReport : public ballast_test::program_test {};

TEST_F(BallastReport, ReadsALogThatGoesOnAfterALineThatWasNotFinished)
{
  for (char const* const part : {"{\"step\":3,\"lengths\":[9", ""}) {
    auto log = ballast::report::step_log::make(path("steps.jsonl")).value();
    ASSERT_TRUE(append(log, good));
    std::ofstream(path("steps.jsonl"), std::ios::app) << part;
  }
  EXPECT_THAT(run("report steps.jsonl").out, testing::StartsWith("2 steps\n"));
}

TEST_F(BallastReport, DrawsAPipelineAsItRanBesideItsSimulation)
{
  std::vector<ballast::report::step_log::task> tasks{
      {0, 0, 3, false, 0, 5'000'000, 0, 4'000'000},
      {1, 1, 3, true, 5'000'000, 9'000'000, 4'000'000, 8'000'000}};
  auto written = ballast::report::step_log::make(path("steps.jsonl")).value();
  ASSERT_TRUE(written.append_pipeline(1, tasks));
  auto const alone = run("report steps.jsonl");
  EXPECT_THAT(alone.out, testing::StartsWith("0 steps; 1 step of a pipeline\n")) << alone.error;
  std::string const page = content("steps.jsonl.html");
  for (std::string const part :
       {"<h2>Pipeline</h2>", ">Simulated<", ">Measured<",
        "It took 1.12 times as long as simulated.", "rank 1, stage 1, backward of microbatch 3"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  // With plans in the log, and where nothing was simulated.
  for (auto& task : tasks) { task.simulated_start = task.simulated_end = 0; }
  ASSERT_TRUE(written.append_pipeline(2, tasks));
  ASSERT_TRUE(append(written, good));
  auto const both = run("report steps.jsonl");
  EXPECT_THAT(both.out, testing::StartsWith("1 step; 2 steps of a pipeline\n")) << both.error;
  EXPECT_THAT(content("steps.jsonl.html"), HasSubstr("<h2>Load per GPU</h2>"));
}

// What step_log refuses to write is what report passes over; the lines are written here by hand.
TEST_F(BallastReport, PassesOverWhatALogDoesNotTake)
{
  std::vector<entry> all{good};
  auto const spoiled = [&](numbers entry::* what, numbers const& now) {
    all.push_back(good);
    all.back().*what = now;
  };
  for (auto const what : {&entry::lengths, &entry::costs, &entry::loads, &entry::speeds,
                          &entry::owner, &entry::measured}) {
    spoiled(what, {0, 0});
    spoiled(what, {1});
    spoiled(what, {});
    spoiled(what, {1, 1 + (std::int64_t{1} << 20)});
    if (what != &entry::speeds && what != &entry::owner) { spoiled(what, {0, -1}); }
  }
  for (auto const what : {&entry::makespan, &entry::bound}) {
    for (numbers const& fraction :
         {numbers{0, 1}, {81, 0}, {-1, 1}, {162, 2}, {163, 2}, {81, -1}}) {
      spoiled(what, fraction);
    }
  }
  all.push_back({{}, {}, {}, {0, 0}, {1, 1}, {0, 1}, {0, 1}, {}});
  all.push_back({{}, {}, {}, {}, {}, {0, 1}, {0, 1}, {}});
  auto log = ballast::report::step_log::make(path("steps.jsonl")).value();
  std::string lines;
  std::size_t refused = 0;
  for (entry const& each : all) {
    if (!append(log, each)) { ++refused; }
    nlohmann::json const line{{"step", 1},
                              {"lengths", each.lengths},
                              {"costs", each.costs},
                              {"owner", each.owner},
                              {"loads", each.loads},
                              {"speeds", each.speeds},
                              {"makespan", each.makespan},
                              {"bound", each.bound},
                              {"measured_ns", each.measured}};
    lines += line.dump() + "\n";
  }
  EXPECT_GT(refused, 20U);
  std::string const kept = std::to_string(all.size() - refused) + " steps";
  file("by_hand.jsonl", lines);
  EXPECT_THAT(run("report by_hand.jsonl").out,
              testing::StartsWith(kept + "; " + std::to_string(refused) + " lines passed over"));
  EXPECT_THAT(run("report steps.jsonl").out, testing::StartsWith(kept + "\n"));
}

}  // namespace report_command
