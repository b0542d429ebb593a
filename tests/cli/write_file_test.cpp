// SPDX-License-Identifier: Apache-2.0
// What runs of the program do not show of its files: outputs_test.cpp has the rest.
#include "../../examples/ballast/write_file.hpp"  // first: proves it is self-contained

#include "../../examples/ballast/follow_links.hpp"
#include "../../examples/ballast/unfinished_files.hpp"
#include "../support/temporary_folder.hpp"
#include "program.hpp"  // defines: ballast_test::content_of, ...

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ballast_test::content_of;
using cli::file_content;
using testing::HasSubstr;

class WriteFile : public testing::Test {
 protected:
  [[nodiscard]] std::string path(char const* name) const { return (folder_ / name).string(); }

  [[nodiscard]] std::ptrdiff_t entries() const
  {
    return std::distance(fs::directory_iterator(folder_), {});
  }

  ballast::result<void> write(std::vector<file_content> const& files)
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

}  // namespace
