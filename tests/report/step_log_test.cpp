// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/step_log.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/temporary_folder.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/report/step_entry.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::tokens;
using ballast::report::step_entry;
using ballast::report::step_log;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

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
step_entry const seven{.step = 7, .loads = nothing, .speeds = one_gpu};

std::string const line_of_seven =
    R"({"step":7,"lengths":[],"costs":[],"owner":[],"loads":[0],"speeds":[1],)"
    R"("makespan":[0,1],"bound":[0,1],"measured_ns":[]})"
    "\n";

TEST_F(StepLog, HasALineForEveryStepOfAPipeline)
{
  std::vector<ballast::report::task_entry> const tasks{{0, 0, 2, false, 0, 5200, 0, 5000},
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
  auto const plan =
      ballast::partition(lengths, bags, ballast::longest_processing_time{}, [](tokens length) {
        return length * length;
      }).value();
  std::vector<std::int64_t> const measured_ns = {5200, 4100};
  // [log]
  auto log = step_log::make(path()).value();  // on rank 0
  auto const written = log.append({.step = 1,
                                   .lengths = lengths,
                                   .costs = plan.costs,
                                   .owner = plan.owner,
                                   .loads = plan.loads,
                                   .speeds = bags.speeds(),
                                   .makespan = plan.makespan,
                                   .lower_bound = plan.lower_bound,
                                   .measured_ns = measured_ns});
  if (!written) { std::fprintf(stderr, "%s\n", written.error().message.c_str()); }
  // [log]
  ASSERT_TRUE(log.append(seven));
  EXPECT_EQ(content_of(path()),
            R"({"step":1,"lengths":[9,8,1],"costs":[81,64,1],"owner":[0,1,1],"loads":[81,65],)"
            R"("speeds":[1,1],"makespan":[81,1],"bound":[81,1],"measured_ns":[5200,4100]})"
            "\n" +
                line_of_seven);
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
  step_entry const entry{.step = 1,
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
