// What the program writes, and what becomes of files that it was not told to write.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

namespace {

namespace fs = std::filesystem;
using ballast_test::content_of;
using ballast_test::expect_refused;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class BallastOutputs : public ballast_test::program_test {
 protected:
  static constexpr char const* plan = "plan --codes g1b4i256f1s0 --steps 2 ";

  /// A plan of a trace, to which file options are added.
  std::string plan_of(std::string const& trace) const
  {
    return "plan --trace " + trace + " --length a --gpus 1 ";
  }
};

TEST_F(BallastOutputs, AreAllThere)
{
  ASSERT_EQ(run(plan + ("--report " + path("out.part") + " --timeline " + path("out"))).exit_code,
            0);
  EXPECT_THAT(content_of(path("out.part")), HasSubstr("<!DOCTYPE html>"));
  EXPECT_THAT(content_of(path("out")), HasSubstr("traceEvents"));
  EXPECT_THAT(names(), ElementsAre("out", "out.part"));
}

TEST_F(BallastOutputs, SpareTheirNeighbours)
{
  auto const trace = file("victim.part", "a\n1\n");
  file("mine", "mine");
  fs::create_symlink("mine", path("link.part"));
  for (std::string const name : {"victim", "link"}) {
    ASSERT_EQ(run(plan_of(trace) + "--report " + path(name)).exit_code, 0);
  }
  EXPECT_EQ(content_of(trace), "a\n1\n");
  EXPECT_EQ(content_of(path("mine")), "mine");
  EXPECT_TRUE(fs::is_symlink(path("link.part")));
}

TEST_F(BallastOutputs, AreNoInputsWhateverTheyAreCalled)
{
  auto const trace = file("t.csv", "a\n1\n");
  fs::create_directory(path("deep"));
  fs::create_symlink("deep", path("folder"));
  fs::create_symlink("../t.csv", path("deep/link.csv"));
  fs::create_hard_link(trace, path("hard.csv"));
  for (std::string const name :
       {"t.csv", "./t.csv", "deep/../t.csv", "folder/link.csv", "folder/../hard.csv"}) {
    expect_refused(run(plan_of(trace) + "--picture " + path(name)), 2,
                   "--trace and --picture name the same file");
    expect_refused(run(plan_of(path(name)) + "--picture " + trace), 2,
                   "--trace and --picture name the same file");
  }
  expect_refused(
      run(plan_of("/dev/fd/9") + "--report " + path("hard.csv"), "exec 9<'" + trace + "'; "), 2,
      "--trace and --report name the same file");
  auto const grown = run(plan_of(trace) + ">>" + path("hard.csv"));
  EXPECT_EQ(grown.exit_code, 2);
  EXPECT_THAT(grown.error, HasSubstr("--trace and standard output name the same file"));
  auto const routed =
      run("route --trace " + trace + " --length a --gpus 1 --cost tokens >>" + trace);
  EXPECT_EQ(routed.exit_code, 2);
  EXPECT_THAT(routed.error, HasSubstr("--trace and standard output name the same file"));
  auto const pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(run(plan_of(pipe) + "--report " + pipe, "timeout 20 "), 2,
                 "--trace and --report name the same file");
  EXPECT_EQ(content_of(trace), "a\n1\n");
}

TEST_F(BallastOutputs, AreDifferentFilesWhateverTheyAreCalled)
{
  file("old", "old");
  fs::create_directory(path("deep"));
  fs::create_symlink("deep", path("folder"));
  fs::create_symlink("../new", path("deep/link"));
  fs::create_hard_link(path("old"), path("hard"));
  auto const both = [&](std::string const& one, std::string const& other) {
    return run(plan + ("--report " + path(one) + " --timeline " + path(other)));
  };
  std::string const why = "--report and --timeline name the same file";
  expect_refused(both("old", "hard"), 2, why);
  expect_refused(both("new", "folder/../new"), 2, why);
  expect_refused(both("folder/link", "new"), 2, why);  // there is nothing yet
  expect_refused(both("folder/x", "deep/x"), 2, why);
  auto const both_on_it = run(plan + ("--report " + path("page") + " >" + path("page")));
  EXPECT_EQ(both_on_it.exit_code, 2);
  EXPECT_THAT(both_on_it.error, HasSubstr("standard output and --report name the same file"));
  EXPECT_EQ(run(plan + ("--report /dev/stdout >" + path("page"))).exit_code, 2);
  EXPECT_EQ(content_of(path("old")), "old");
  EXPECT_EQ(content_of(path("page")), "");
  EXPECT_FALSE(fs::exists(path("new")));
  EXPECT_EQ(both("folder/x", "folder/y").exit_code, 0);
}

TEST_F(BallastOutputs, MayBePipesAndDevices)
{
  auto const piped = run(plan + std::string("--report /dev/stdout --timeline /dev/stdout"));
  EXPECT_EQ(piped.exit_code, 0) << piped.error;
  EXPECT_THAT(piped.out, testing::AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("traceEvents"),
                                        HasSubstr("max / min")));
  EXPECT_EQ(run(plan + std::string("--report /dev/null --timeline /dev/null")).exit_code, 0);
  auto const pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  auto const read = run(plan + ("--report " + pipe + " >/dev/null & cat " + pipe));
  EXPECT_THAT(read.out, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(names(), ElementsAre("pipe"));
}

TEST_F(BallastOutputs, KeepLinksAndRefuseWhatIsReadOnly)
{
  file("page", "old");
  fs::create_symlink("page", path("link"));
  ASSERT_EQ(run(plan + ("--report " + path("link"))).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_THAT(content_of(path("page")), HasSubstr("<!DOCTYPE html>"));
  file("page", "old");
  fs::permissions(path("page"), fs::perms::owner_read);
  for (std::string const name : {"page", "link"}) {
    expect_refused(run(plan + ("--report " + path(name) + " --timeline " + path("t.json"))), 1,
                   "the file is read-only; allow writing to it or choose another");
  }
  EXPECT_EQ(content_of(path("page")), "old");
  EXPECT_THAT(names(), ElementsAre("link", "page"));
}

TEST_F(BallastOutputs, SayThatAFileMayNotGrow)
{
  file("page", "old");
  expect_refused(run(plan + ("--report " + path("page")), "ulimit -f 1; "), 1, "File too large");
  EXPECT_EQ(content_of(path("page")), "old");
  EXPECT_THAT(names(), ElementsAre("page"));
}

TEST_F(BallastOutputs, LeaveNothingBehindWhereASignalStopsThem)
{
  file("page", "old");
  auto const page = path("page");
  auto const pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (int const signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    // It waits for somebody to read the pipe, with the page written and not in its place.
    pid_t const child = fork();
    if (child == 0) {
      (void)std::signal(signal, SIG_DFL);  // a background job ignores some
      execl(program().c_str(), program().c_str(), "plan", "--codes", "g1b4i256f1s0", "--report",
            page.c_str(), "--timeline", pipe.c_str(), nullptr);
      _exit(127);
    }
    for (int tries = 0; names().size() == 2 && tries < 10'000; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(names().size(), 3U);
    EXPECT_EQ(kill(child, signal), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal << ' ' << status;
    EXPECT_THAT(names(), ElementsAre("page", "pipe")) << signal;
    EXPECT_EQ(content_of(page), "old");
  }
}

}  // namespace
