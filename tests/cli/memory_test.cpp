// What the program says where memory or threads are short.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace {

using ballast_test::expect_refused;

// The address sanitizer takes more memory than any limit leaves.
#if defined(__SANITIZE_ADDRESS__)
#define BALLAST_TESTS_LIMIT_MEMORY 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BALLAST_TESTS_LIMIT_MEMORY 0
#endif
#endif
#ifndef BALLAST_TESTS_LIMIT_MEMORY
#define BALLAST_TESTS_LIMIT_MEMORY 1
#endif

class BallastMemory : public ballast_test::program_test {
 protected:
  void SetUp() override
  {
    if (BALLAST_TESTS_LIMIT_MEMORY == 0) { GTEST_SKIP() << "a sanitizer needs the memory"; }
    program_test::SetUp();
  }

  /// A file that is larger than memory may be, and takes no disk.
  std::string large() const
  {
    auto const name = file("large", "1");
    std::filesystem::resize_file(name, std::uintmax_t{1} << 33);
    return name;
  }

  static constexpr char const* limited = "ulimit -v 400000; ";
};

TEST_F(BallastMemory, RunsOutWhileAFileIsRead)
{
  auto const why = "memory ran out while reading " + large() + "; read a smaller file, or allow";
  for (std::string const command :
       {"plan --length a --gpus 1 --trace ", "plan --codes g1b4i256f1s0 --measured ",
        "plan --codes g1b4i256f1s0 --speeds ", "partition --instances ", "pipeline --durations "}) {
    expect_refused(run(command + path("large"), limited), 1, why);
  }
}

TEST_F(BallastMemory, RunsOutWhileStepsArePlanned)
{
  for (std::string const command : {"plan", "route"}) {
    expect_refused(
        run(command + " --codes g1b16000000i256f1s0", limited), 1,
        "memory ran out while planning steps; take fewer samples per step, or fewer GPUs");
  }
}

TEST_F(BallastMemory, IsEnoughWhereNoThreadCanBeStarted)
{
  auto const times = file("t.csv", "microbatch,stage,forward,backward\n0,0,1,2\n");
  // Every thread would take a stack of four gigabytes.
  auto const result =
      run("pipeline --durations " + times, "ulimit -s 4000000; ulimit -v 1000000; ");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.error, "");
}

}  // namespace
