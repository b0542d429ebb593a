// SPDX-License-Identifier: Apache-2.0
// Parts of the program that its calls do not show, and what it leaves behind where a signal stops it.

#include "../../examples/ballast/cleanup.cpp"  // which the program is linked with
#include "../../examples/ballast/follow_links.hpp"
#include "../../examples/ballast/makespan_instances.hpp"
#include "../../examples/ballast/progress.hpp"
#include "../../examples/ballast/shown_text.hpp"
#include "../../examples/ballast/unfinished_files.hpp"
#include "../../examples/ballast/write_file.hpp"
#include "program.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace parts {

namespace fs = std::filesystem;
using ballast::error_code;
using ballast_test::content_of;
using cli::makespan_instance;
using cli::read_makespan_instance;
using cli::shown_text;
using std::string_view_literals::operator""sv;
using testing::HasSubstr;

// ---- Files -----------------------------------------------------------------------------------------

class WriteFile : public testing::Test {
 protected:
  [[nodiscard]] std::string path(char const* name) const { return (folder_ / name).string(); }

  [[nodiscard]] std::ptrdiff_t entries() const
  {
    return std::distance(fs::directory_iterator(folder_), {});
  }

  ballast::result<void> write(std::vector<cli::file_content> const& files)
  {
    return cli::write_files(files, unfinished_);
  }

  ballast_test::temporary_folder temporary_;
  fs::path folder_ = temporary_.path();
  cli::unfinished_files unfinished_;
};

TEST_F(WriteFile, WritesAndReplaces)  // Ensures (1)
{
  std::string const first("one\0two\r\n", 9);
  for (std::string const& content : {first, std::string()}) {
    ASSERT_TRUE(cli::write_file(path("a"), content, unfinished_));
    EXPECT_EQ(content_of(path("a")), content);
  }
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, WritesAllFilesOrNone)  // Ensures (1) (2)
{
  ASSERT_TRUE(write({{path("a"), "old"}}));
  fs::create_symlink("a", path("link"));
  for (auto const& [bad, why] : {std::pair(path("no/such/folder"), "No such file or directory"),
                                 std::pair(folder_.string(), "Is a directory"),
                                 std::pair(std::string("/dev/full"), "No space left on device")}) {
    auto const written = write({{path("link"), "new"}, {bad, "lost"}, {path("b"), "never"}});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ballast::error_code::unwritable);
    EXPECT_EQ(written.error().position, 1U);
    EXPECT_THAT(written.error().message, HasSubstr("'" + bad + "': " + why));
    EXPECT_EQ(content_of(path("a")), "old");
    EXPECT_EQ(entries(), 2);
  }
  EXPECT_TRUE(write({}));
}

TEST_F(WriteFile, WritesOpenFilesInPlace)
{
  std::FILE* const open = std::fopen(path("a").c_str(), "w+");
  ASSERT_NE(open, nullptr);
  ASSERT_TRUE(write({{"/dev/fd/" + std::to_string(fileno(open)), "new"}}));
  std::array<char, 8> read{};
  EXPECT_EQ(std::fread(read.data(), 1, read.size(), open), 3U);
  EXPECT_STREQ(read.data(), "new");
  (void)std::fclose(open);
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, KeepsPermissions)  // Ensures (1)
{
  std::ofstream(path("a")) << "old";
  auto const permissions = [&] { return fs::status(path("a")).permissions(); };
  auto const usual = permissions();
  fs::remove(path("a"));
  ASSERT_TRUE(write({{path("a"), "old"}}));
  EXPECT_EQ(permissions(), usual);
  for (auto const own : {fs::perms::owner_read | fs::perms::owner_write, usual | fs::perms::all}) {
    fs::permissions(path("a"), own);
    ASSERT_TRUE(write({{path("a"), "new"}}));
    EXPECT_EQ(permissions(), own);
  }
}

TEST_F(WriteFile, LeavesNothingWhereItIsStoppedInTheMiddle)
{
  auto const pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(path("old")) << "old";
  // The write waits for somebody to read the pipe, with the other file written and not in place.
  ballast::result<void> written;
  std::thread writer([&] { written = write({{path("old"), "new"}, {pipe, "x"}}); });
  for (int tries = 0; entries() == 2 && tries < 10'000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(entries(), 3);
  errno = 7;
  unfinished_.remove();
  EXPECT_EQ(errno, 7);
  EXPECT_EQ(content_of(pipe), "x");
  writer.join();
  EXPECT_FALSE(written);  // what should replace "old" is gone
  EXPECT_EQ(content_of(path("old")), "old");
  EXPECT_EQ(entries(), 2);
}

TEST_F(WriteFile, FollowsLinksToTheirEnd)
{
  for (std::string const& plain : {path("nothing"), folder_.string(), std::string()}) {
    EXPECT_EQ(cli::follow_links(plain), plain);
  }
  fs::create_directory(path("deep"));
  fs::create_symlink("deep/second", path("first"));
  fs::create_symlink(path("third"), path("deep/second"));
  fs::create_symlink("deep/../nothing", path("third"));
  EXPECT_EQ(cli::follow_links(path("first")), path("deep/../nothing"));
  fs::create_symlink("/proc/self/fd/0", path("input"));
  EXPECT_EQ(cli::follow_links(path("input")), "/proc/self/fd/0");
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_TRUE(fs::is_symlink(cli::follow_links(path("a")))) << "it ends in a circle";
}

class BallastOutputs : public ballast_test::program_test {};

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
    EXPECT_THAT(names(), testing::ElementsAre("page", "pipe")) << signal;
    EXPECT_EQ(content_of(page), "old");
  }
}

// ---- Instances -------------------------------------------------------------------------------------

void expect_bad_row(std::string_view text, std::size_t line, std::string_view message)
{
  auto const instance = read_makespan_instance(text);
  ASSERT_FALSE(instance) << text;
  EXPECT_EQ(instance.error().code, error_code::bad_row) << text;
  EXPECT_EQ(instance.error().position, line) << text;
  EXPECT_EQ(instance.error().message, message) << text;
}

TEST(MakespanInstance, IsMachinesJobsAndTimes)
{
  makespan_instance const expected{3, {7, 0, 12}};
  EXPECT_EQ(read_makespan_instance("3\n3\n7\n0\n12\n").value(), expected);
  EXPECT_EQ(read_makespan_instance("  3 3\r\n7\t0 12").value(), expected);
  EXPECT_EQ(read_makespan_instance("1 0\n").value(), (makespan_instance{1, {}}));
  EXPECT_EQ(read_makespan_instance("1048576 1 9223372036854775806").value(),
            (makespan_instance{1 << 20, {9223372036854775806}}));
}

TEST(MakespanInstance, SaysWhichLineIsWrong)  // Errors
{
  expect_bad_row("", 1, "line 1: the text ends where the number of machines should be; add it");
  expect_bad_row("5\n", 2, "line 2: the text ends where the number of jobs should be; add it");
  expect_bad_row("5\n2\n7\n", 4, "line 4: the text ends where time 2 of 2 should be; add it");
  expect_bad_row("5\n4294967295\n7", 3,
                 "line 3: the text ends where time 2 of 4294967295 should be; add it");
  expect_bad_row("5\n1\n7\n8\n", 4,
                 "line 4: '8' follows after the last of 1 jobs; remove it or correct the count");
  expect_bad_row("5\n1\nseven", 3,
                 "line 3: 'seven' stands where time 1 of 1 should be; write a whole number");
  expect_bad_row("5 1\n7.5", 2,
                 "line 2: '7.5' stands where time 1 of 1 should be; write a whole number");
  expect_bad_row("0 1 7", 1,
                 "line 1: the number of machines is 0, expected 1 to 1048576; correct it");
  expect_bad_row("1 1\n-7", 2,
                 "line 2: time 1 of 1 is -7, expected 0 to 9223372036854775806; correct it");
  expect_bad_row("1 2\n1\n9223372036854775806", 3,
                 "line 3: time 2 of 2 is 9223372036854775806, expected 0 to 9223372036854775805; "
                 "correct it");
  expect_bad_row("1 1\n99999999999999999999", 2,
                 "line 2: time 1 of 1 is 99999999999999999999, expected 0 to 9223372036854775806; "
                 "correct it");
}

// ---- What is shown ---------------------------------------------------------------------------------

TEST(ShownText, StaysInItsLine)  // Ensures (1)
{
  EXPECT_EQ(shown_text("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(shown_text("\x1b[2J\x07\x7f\0"sv), "\\x1b[2J\\x07\\x7f\\x00");
  EXPECT_EQ(shown_text("\u0085\u009b"), "\\u0085\\u009b");
  EXPECT_EQ(shown_text("\u2028\u2029"), "\\u2028\\u2029");
  EXPECT_EQ(shown_text("\u061c\u200e\u200f\u202a\u202e\u2066\u2069"),
            "\\u061c\\u200e\\u200f\\u202a\\u202e\\u2066\\u2069");
}

TEST(ShownText, IsUtf8)  // Ensures (1)
{
  EXPECT_EQ(shown_text("\xff\x80\xc3"), "\\xff\\x80\\xc3");
  EXPECT_EQ(shown_text("\xc0\x8a\xe0\x80\x8a"), "\\xc0\\x8a\\xe0\\x80\\x8a");  // overlong
  EXPECT_EQ(shown_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");                    // half a pair
  EXPECT_EQ(shown_text("\xf4\x90\x80\x80\xf5"), "\\xf4\\x90\\x80\\x80\\xf5");  // past the last
}

TEST(ShownText, LeavesWhatIsHarmless)  // Ensures (2)
{
  for (std::string_view const text :
       {""sv, " ~!\\n\\x1b"sv, "größe 日本 🚂"sv, "\u00a0\u200d\u202f"sv,
        "\u07ff\u0800\uffff\U00010000\U0010ffff"sv}) {
    EXPECT_EQ(shown_text(text), text);
  }
}

// On a log; what a terminal shows needs one.
TEST(Progress, IsALineNowAndThenWhereNobodyLooks)
{
  using namespace std::chrono_literals;
  testing::internal::CaptureStderr();
  {
    cli::progress shown(20ms);
    ASSERT_FALSE(shown.is_seen());
    auto const begun = cli::progress::clock::now();
    int told = 0;
    while (told < 3 && cli::progress::clock::now() - begun < 5s) {
      shown.update([&told] { return "searching, part " + std::to_string(++told); });
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(told, 3);
    EXPECT_GE(cli::progress::clock::now() - begun, 60ms);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ballast: searching, part 1, 0 s so far\nballast: searching, part 2, 0 s so far\n"
            "ballast: searching, part 3, 0 s so far\n");
  testing::internal::CaptureStderr();
  {
    cli::progress shown;
    shown.update([] { return std::string("searching"); });
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "only what takes ten seconds is told";
}

}  // namespace parts
