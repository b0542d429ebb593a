// SPDX-License-Identifier: Apache-2.0
// [log]
#include <ballast/partition/partition.hpp>
#include <ballast/report/step_log.hpp>

#include <cstdio>

// On rank 0, after each step; the log is step_log::make("steps.jsonl").value().
void write_down(ballast::report::step_log& log, std::uint64_t step,
                ballast::partition_plan const& plan, ballast::bag_layout const& bags,
                std::span<ballast::tokens const> lengths, ballast::placement_limits const& limits,
                std::span<std::int64_t const> measured_ns)
{
  auto const written = log.append(
      ballast::report::step_log::line_of(step, plan, bags, lengths, limits, measured_ns));
  if (!written) { std::fprintf(stderr, "%s\n", written.error().message.c_str()); }
}
// [log]

#include "../support/counted_allocations.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/test.hpp"

#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

namespace {

using namespace ballast;
using ballast::report::step_log;
using step_task = step_log::task;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Two samples on two bags, of which a test spoils something.
struct step {
  std::vector<ballast::tokens> lengths = {9, 8};
  std::vector<ballast::cost_units> costs = {81, 64};
  std::vector<bag_id> owner = {bag_id{0}, bag_id{1}};
  std::vector<ballast::cost_units> loads = {81, 64};
  std::vector<std::uint32_t> speeds = {1, 1};
  ballast::ratio makespan = {81, 1};
  ballast::ratio bound = {81, 1};
  std::vector<std::int64_t> measured = {5, 4};

  [[nodiscard]] step_log::step_line entry() const
  {
    return {4, lengths, costs, owner, loads, speeds, makespan, bound, measured};
  }
};

template <class Spoil>
void expect_wrong(Spoil const& spoil, std::size_t position, std::string const& sentence)
{
  step wrong;
  spoil(wrong);
  auto const checked = step_log::check(wrong.entry());
  ASSERT_FALSE(checked) << sentence;
  EXPECT_EQ(checked.error(),
            (ballast::error{ballast::error_code::out_of_range, position, "step 4 " + sentence}));
}

TEST(CheckLine, NamesWhatIsWrongWithAStep)  // Ensures (1), Errors
{
  expect_wrong([](step& of) { of.costs.pop_back(); }, 0,
               "has 2 lengths, 1 cost and 2 owners; give each sample one of each");
  expect_wrong([](step& of) { of.lengths.pop_back(); }, 0,
               "has 1 length, 2 costs and 2 owners; give each sample one of each");
  expect_wrong([](step& of) { of.speeds.push_back(1); }, 0,
               "has loads of 2 bags and speeds of 3; give each bag one of each");
  expect_wrong([](step& of) { of = {{}, {}, {}, {}, {}}; }, 0,
               "has no bags; give the loads and speeds of its plan");
  expect_wrong([](step& of) { of.lengths[1] = -1; }, 1, "has -1 in lengths[1]; give 0 or more");
  expect_wrong([](step& of) { of.costs[0] = -7; }, 0, "has -7 in costs[0]; give 0 or more");
  expect_wrong([](step& of) { of.loads[1] = -2; }, 1, "has -2 in loads[1]; give 0 or more");
  expect_wrong([](step& of) { of.speeds[1] = 0; }, 1, "has 0 in speeds[1]; give 1 or more");
  expect_wrong([](step& of) { of.measured[1] = -3; }, 1,
               "has -3 in measured_ns[1]; give 0 or more");
  expect_wrong([](step& of) { of.owner[1] = bag_id{2}; }, 1,
               "gives sample 1 to bag 2 of 2; give an owner below the number of bags");
  expect_wrong([](step& of) { of.lengths = {std::int64_t{1} << 62, std::int64_t{1} << 62}; }, 1,
               "has lengths that add up to 2^63 or more; give numbers of tokens");
  expect_wrong([](step& of) { of.makespan = {81, 0}; }, 0,
               "has a makespan of 81/0; give a numerator from 0 and a denominator from 1");
  expect_wrong([](step& of) { of.bound = {-1, 1}; }, 0,
               "has a bound of -1/1; give a numerator from 0 and a denominator from 1");
  expect_wrong([](step& of) { of.bound = {163, 2}; }, 0,
               "has a makespan of 81/1, which is below its bound of 163/2; give both of one plan");
}

TEST(CheckLine, NamesWhatIsWrongWithMicrobatchesAndLimits)  // Errors
{
  std::vector<std::uint32_t> const one = {1};
  std::vector<std::int64_t> const minus = {1, -5};
  std::vector<ballast::cell_id> const cells = {ballast::cell_id{0}, ballast::cell_id{4}};
  std::vector<ballast::cost_units> const loads = {81, 64, 0, 0};
  step const two;
  auto const sentence_of = [&two](auto const& spoil) {
    auto line = two.entry();
    spoil(line);
    auto const checked = step_log::check(line);
    return checked ? std::string() : checked.error().message;
  };
  using line = step_log::step_line;
  EXPECT_EQ(sentence_of([&](line& of) { of.gpus = one; }),
            "step 4 has GPUs of 1 bag and speeds of 2; give each bag one of each");
  EXPECT_EQ(sentence_of([&](line& of) { of.weights = std::span(minus).first(1); }),
            "step 4 has 1 weight of 2 samples; give each sample one, or none");
  EXPECT_EQ(sentence_of([&](line& of) { of.weights = minus; }),
            "step 4 has -5 in weights[1]; give 0 or more");
  EXPECT_EQ(sentence_of([&](line& of) { of.most_per_gpu = -1; }),
            "step 4 has -1 in most_per_gpu[0]; give 0 or more");
  EXPECT_EQ(
      sentence_of([&](line& of) { of.microbatches = 2; }),
      "step 4 has loads of 2 cells, and 2 bags of 2 microbatches; give the loads of all cells");
  auto const grid = [&](line& of) {
    of.microbatches = 2;
    of.loads = loads;
    of.cells = cells;
  };
  EXPECT_EQ(sentence_of(grid),
            "step 4 gives sample 1 to cell 4 of 4; give an owner below the number of cells");
}

TEST(CheckLine, NamesWhatIsWrongWithATask)  // Ensures (1), Errors
{
  step_task const right{.rank = 1, .stage = 1, .microbatch = 2, .start = 5, .end = 9};
  auto const sentence_of = [&right](step_task const& wrong) {
    auto const checked = step_log::check(4, std::vector{right, wrong});
    EXPECT_FALSE(checked);
    EXPECT_EQ(checked.error().position, 1U);
    return checked.error().message;
  };
  std::string const remedy = " ns; give times from the start of the step, the end last";
  auto wrong = right;
  wrong.start = -20;
  EXPECT_EQ(sentence_of(wrong), "step 4 has task 1 from -20 to 9" + remedy);
  wrong = right;
  wrong.end = 4;
  EXPECT_EQ(sentence_of(wrong), "step 4 has task 1 from 5 to 4" + remedy);
  wrong = right;
  wrong.simulated_end = -1;
  EXPECT_EQ(sentence_of(wrong), "step 4 has task 1 from 0 to -1" + remedy);
  wrong = right;
  wrong.stage = 1 << 20;
  EXPECT_EQ(sentence_of(wrong),
            "step 4 has task 1 of rank 1, stage 1048576 and microbatch 2; give numbers below "
            "1048576");
  EXPECT_EQ(step_log::check(4, {}).error().message,
            "step 4 has no tasks; leave out a step that ran none");
  EXPECT_TRUE(step_log::check(4, std::vector{right, right}));
}

TEST(CheckLine, TakesTheEdgesOfWhatIsRightAndAllocatesNothing)  // Ensures (1) (2)
{
  step none;  // of no samples, as of a rank that reads nothing; no times
  none.lengths.clear();
  none.costs.clear();
  none.owner.clear();
  none.measured.clear();
  none.loads = {0, 0};
  none.makespan = none.bound = {0, 1};
  step longest;
  longest.lengths = {std::int64_t{1} << 62, (std::int64_t{1} << 62) - 1};
  longest.makespan = {162, 2};
  std::size_t const before = ballast_test::allocations();
  bool const right = step_log::check(none.entry()) && step_log::check(longest.entry());
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_TRUE(right);
}

TEST(PipelineTasks, StandBesideTheSimulation)  // Ensures (1)
{
  auto const schedule = compiled_schedule::make(ballast::chain_of_stages(2, 2),
                                                ballast::one_forward_one_backward{}, 2)
                            .value();
  pipeline_timeline measured;
  for (std::size_t task = 0; task < schedule.tasks().size(); ++task) {
    measured.start.push_back(static_cast<std::int64_t>(100 * task));
    measured.end.push_back(static_cast<std::int64_t>(100 * task + 50));
  }
  pipeline_timeline simulated = measured;
  for (auto& time : simulated.start) { time /= 50; }
  for (auto& time : simulated.end) { time /= 50; }
  std::vector<microbatch_id> const order{microbatch_id{1}, microbatch_id{0}};
  auto const all = step_log::tasks_of(schedule, order, measured, simulated, 10);
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(all.front().microbatch, 1U);
  EXPECT_FALSE(all.front().is_backward);
  EXPECT_TRUE(all.back().is_backward);
  std::vector<std::uint32_t> ranks;
  for (step_task const& each : all) {
    ranks.push_back(each.rank);
    EXPECT_EQ(each.end - each.start, 50);
    EXPECT_EQ(each.simulated_end, 10 * (each.end / 50));
  }
  EXPECT_THAT(ranks, testing::ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(PipelineTasks, AreThoseThatRan)
{
  auto const schedule = compiled_schedule::make(ballast::chain_of_stages(1, 1),
                                                ballast::one_forward_one_backward{}, 1)
                            .value();
  pipeline_timeline measured;
  measured.start.assign(2, 0);
  measured.end.assign(2, 0);
  std::uint32_t const forward = schedule.tasks_on(ballast::pipeline_rank{0})[0];
  measured.end[forward] = 7;
  std::vector<microbatch_id> const order{microbatch_id{0}};
  EXPECT_THAT(step_log::tasks_of(schedule, order, measured),
              testing::ElementsAre(step_task{0, 0, 0, false, 0, 7, 0, 0}));
}

TEST(PipelineTasksDeathTest, NeedTheOrderThatRan)
{
  auto const schedule = compiled_schedule::make(ballast::chain_of_stages(1, 1),
                                                ballast::one_forward_one_backward{}, 2)
                            .value();
  pipeline_timeline measured;
  measured.start.assign(4, 0);
  measured.end.assign(4, 5);
  std::vector<microbatch_id> const order{microbatch_id{0}};
  EXPECT_DEATH((void)step_log::tasks_of(schedule, order, measured),
               "position 1 ran, and the order has 1 microbatch");
}

std::string content_of(std::string const& path)
{
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class StepLog : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return (temporary_.path() / "steps.jsonl").string(); }

  ballast_test::temporary_folder temporary_;
};

// A step without samples, which has bags.
std::array<cost_units, 1> const nothing = {0};
std::array<std::uint32_t, 1> const one_gpu = {1};
step_log::step_line const seven{.step = 7, .loads = nothing, .speeds = one_gpu};

std::string const line_of_seven =
    R"({"step":7,"lengths":[],"costs":[],"owner":[],"loads":[0],"speeds":[1],)"
    R"("makespan":[0,1],"bound":[0,1],"measured_ns":[]})"
    "\n";

TEST_F(StepLog, HasALineForEveryStepOfAPipeline)
{
  std::vector<ballast::report::step_log::task> const tasks{{0, 0, 2, false, 0, 5200, 0, 5000},
                                                           {0, 0, 2, true, 5300, 9900, 5000, 9500}};
  auto log = step_log::make(path()).value();
  ASSERT_TRUE(log.append_pipeline(1, tasks));
  ASSERT_TRUE(log.append(seven));
  std::string const line =
      R"({"step":1,"tasks":[[0,0,2,0,0,5200,0,5000],[0,0,2,1,5300,9900,5000,9500]]})"
      "\n";
  EXPECT_EQ(content_of(path()), line + line_of_seven);
  ASSERT_TRUE(log.append_pipeline(~std::uint64_t{0}, std::vector(1, tasks[0])));
  std::string const last = "{\"step\":18446744073709551615,\"tasks\":[[0,0,2,0,0,5200,0,5000]]}\n";
  EXPECT_EQ(content_of(path()), line + line_of_seven + last);
  // An unfinished line of a pipeline is removed too.
  std::ofstream(path(), std::ios::app) << line.substr(0, 20);
  ASSERT_TRUE(step_log::make(path()));
  EXPECT_EQ(content_of(path()), line + line_of_seven + last);
}

TEST_F(StepLog, HasALineForEveryStep)
{
  std::vector<tokens> const lengths = {9, 8, 1};
  auto const bags = ballast::one_gpu_bags(2);
  ballast::placement_limits const limits{.samples = ballast::counts::at_most(2)};
  auto const plan = ballast::partition(
                        lengths, bags, [](tokens length) { return length * length; }, limits)
                        .value();
  std::vector<std::int64_t> const measured_ns = {5200, 4100};
  auto log = step_log::make(path()).value();
  write_down(log, 1, plan, bags, lengths, limits, measured_ns);
  ASSERT_TRUE(log.append(seven));
  EXPECT_EQ(content_of(path()),
            R"({"step":1,"lengths":[9,8,1],"costs":[81,64,1],"owner":[0,1,1],"loads":[81,65],)"
            R"("speeds":[1,1],"makespan":[81,1],"bound":[81,1],"measured_ns":[5200,4100],)"
            R"("gpus":[1,1],"samples":"at_most:2"})"
            "\n" +
                line_of_seven);
}

TEST_F(StepLog, SaysHowAGridWasPlanned)
{
  std::vector<tokens> const lengths = {9, 8, 1, 6};
  std::vector<std::int64_t> const images = {3, 1, 1, 2};
  auto const bags = ballast::one_gpu_bags(2);
  ballast::placement_limits const limits{.also = {{.of = images, .most_per_gpu = 3}}};
  auto const plan = ballast::partition_grid(
                        lengths, bags, {.number = 2, .meet = ballast::grid_meeting::microbatch},
                        std::identity{}, limits)
                        .value();
  auto const line = step_log::line_of(1, plan, bags, lengths, limits);
  EXPECT_TRUE(step_log::check(line));
  ASSERT_TRUE(step_log::make(path()).value().append(line));
  std::string owner;
  for (ballast::cell_id const cell : plan.owner) {
    owner += (owner.empty() ? "" : ",") + std::to_string(to_index(cell));
  }
  EXPECT_THAT(content_of(path()), HasSubstr("\"owner\":[" + owner + "],\"loads\":["));
  EXPECT_THAT(content_of(path()),
              EndsWith(R"("measured_ns":[],"gpus":[1,1],"microbatches":2,"meet":"microbatch",)"
                       R"("most_per_gpu":3,"weights":[3,1,1,2]})"
                       "\n"));
}

TEST_F(StepLog, ContinuesAFile)  // Ensures (2)
{
  for (std::string const unfinished : {"", "{", R"({"step":8,"lengths":[1,2)"}) {
    std::ofstream(path(), std::ios::app) << unfinished;
    ASSERT_TRUE(step_log::make(path()).value().append(seven)) << unfinished;
  }
  EXPECT_EQ(content_of(path()), line_of_seven + line_of_seven + line_of_seven);
  // A line that is longer than what is read at a time.
  std::ofstream(path(), std::ios::app) << R"({"step":8,"lengths":[)" << std::string(200'000, '1');
  ASSERT_TRUE(step_log::make(path()).value().append(seven));
  EXPECT_EQ(content_of(path()).size(), 4 * line_of_seven.size());
}

TEST_F(StepLog, RefusesWhatIsNoLogAndWhatCannotBeOpened)  // Errors
{
  for (std::string const content : {"important", R"({"step":1,"loss":3})", R"({"step":x)"}) {
    std::ofstream(path()) << content;
    auto const other = step_log::make(path());
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().message,
              path() + ": its last line is no line of a step log; name another file");
    EXPECT_EQ(content_of(path()), content);
  }
  auto const missing = step_log::make(path() + "/steps.jsonl");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ballast::error_code::unwritable);
  EXPECT_THAT(missing.error().message, HasSubstr("Not a directory; name a file"));
}

TEST_F(StepLog, SaysThatTheDiskIsFullAndGoesOn)  // Ensures (3)
{
  auto full = step_log::make("/dev/full").value();
  for (int step = 0; step < 2; ++step) {
    auto const written = full.append(seven);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ballast::error_code::unwritable);
    EXPECT_THAT(written.error().message, HasSubstr("/dev/full: No space left on device"));
  }
  full = step_log::make(path()).value();
  ASSERT_TRUE(full.append(seven));

  // The file may grow by half a line.
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  rlimit const tight{line_of_seven.size() * 3 / 2, usual.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  auto const written = full.append(seven);
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(content_of(path()), line_of_seven) << "nothing of the line is left";
  ASSERT_TRUE(full.append(seven));
  EXPECT_EQ(content_of(path()), line_of_seven + line_of_seven);
}

TEST_F(StepLog, KeepsEveryLineOfTwoProcesses)  // Ensures (1)
{
  constexpr std::size_t steps = 20;
  std::vector<tokens> const lengths(2000, 123'456);
  std::vector<cost_units> const costs(2000, 987'654'321);
  std::vector<bag_id> const owner(2000, bag_id{0});
  auto const write = [&](std::uint64_t first) {
    auto log = step_log::make(path()).value();
    bool all = true;
    for (std::uint64_t step = first; step < first + steps; ++step) {
      all = log.append({.step = step,
                        .lengths = lengths,
                        .costs = costs,
                        .owner = owner,
                        .loads = nothing,
                        .speeds = one_gpu})
                .has_value() &&
            all;
    }
    return all;
  };
  pid_t const other = fork();
  if (other == 0) { _exit(write(1000) ? 0 : 1); }
  EXPECT_TRUE(write(0));
  int status = -1;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  std::istringstream lines(content_of(path()));
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, AllOf(StartsWith("{\"step\":"), EndsWith("\"measured_ns\":[]}")));
    EXPECT_EQ(std::ranges::count(line, '['), 8);
    EXPECT_EQ(std::ranges::count(line, ','), 3 * 1999 + 2 + 8);
    seen.insert(line.substr(0, line.find(',')));
  }
  EXPECT_EQ(seen.size(), 2 * steps);
}

TEST_F(StepLog, LosesNoLineBehindOneThatAnotherWriterLeft)  // Ensures (2)
{
  auto log = step_log::make(path()).value();
  ASSERT_TRUE(log.append(seven));
  std::ofstream(path(), std::ios::app) << R"({"step":8,"lengths":[1,2)";  // and was killed
  ASSERT_TRUE(log.append(seven));
  EXPECT_EQ(content_of(path()), line_of_seven + line_of_seven);
}

TEST_F(StepLog, WritesNothingThatAPageCouldNotShow)  // Ensures (5)
{
  auto log = step_log::make(path()).value();
  auto const no_bags = log.append({.step = 3});
  ASSERT_FALSE(no_bags);
  EXPECT_EQ(no_bags.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(no_bags.error().message, "step 3 has no bags; give the loads and speeds of its plan");
  auto const no_tasks = log.append_pipeline(3, {});
  ASSERT_FALSE(no_tasks);
  EXPECT_EQ(no_tasks.error().message, "step 3 has no tasks; leave out a step that ran none");
  EXPECT_EQ(content_of(path()), "");
}

TEST_F(StepLog, ReadsALongTailInLittleMemory)  // Complexity
{
  auto const allocations_for = [this](std::size_t tail) {
    std::ofstream(path()) << line_of_seven;
    std::filesystem::resize_file(path(), line_of_seven.size() + tail);  // sparse: zeros
    std::size_t const before = ballast_test::allocations();
    auto const log = step_log::make(path());
    std::size_t const after = ballast_test::allocations();
    EXPECT_FALSE(log);
    return after - before;
  };
  EXPECT_EQ(allocations_for(std::size_t{8} << 20), allocations_for(1));
}

TEST_F(StepLog, AllocatesNothingOnceItHasSeenALineAsLong)  // Ensures (4)
{
  std::vector<tokens> const lengths(500, 99);
  std::vector<cost_units> const costs(500, 99);
  std::vector<bag_id> const owner(500, bag_id{1});
  std::vector<cost_units> const loads(2, 99);
  std::vector<std::uint32_t> const speeds(2, 1);
  step_log::step_line const entry{.step = 1,
                                  .lengths = lengths,
                                  .costs = costs,
                                  .owner = owner,
                                  .loads = loads,
                                  .speeds = speeds};
  auto log = step_log::make(path()).value();
  ASSERT_TRUE(log.append(entry));
  std::size_t const before = ballast_test::allocations();
  bool all = true;
  for (int step = 0; step < 100; ++step) { all = all && log.append(entry).has_value(); }
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_TRUE(all);
}

}  // namespace
