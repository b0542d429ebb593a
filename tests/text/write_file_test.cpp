// SPDX-License-Identifier: Apache-2.0
#include "../support/temporary_folder.hpp"

#include <ballast/text/write_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/resource.h>

namespace {

namespace fs = std::filesystem;
using ballast::file_content;
using ballast::write_file;
using ballast::write_files;
using testing::HasSubstr;

std::string content_of(fs::path const& path)
{
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WriteFile : public testing::Test {
 protected:
  [[nodiscard]] std::string path(char const* name) const { return (folder_ / name).string(); }

  [[nodiscard]] std::ptrdiff_t entries() const
  {
    return std::distance(fs::directory_iterator(folder_), {});
  }

  ballast_test::temporary_folder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(WriteFile, WritesAndReplaces)  // Ensures (1)
{
  std::string const first("one\0two\r\n", 9);
  ASSERT_TRUE(write_file(path("a"), first));
  EXPECT_EQ(content_of(path("a")), first);
  ASSERT_TRUE(write_file(path("a"), ""));
  EXPECT_EQ(content_of(path("a")), "");
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, SaysWhyItCannot)
{
  auto const missing = write_file(path("no/such/folder"), "x");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ballast::error_code::unwritable);
  EXPECT_THAT(missing.error().message, HasSubstr("no/such/folder': No such file or directory"));

  auto const folder = write_file(folder_.string(), "x");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("Is a directory"));
}

TEST_F(WriteFile, LeavesTheOldFileWhereTheNewOneDoesNotFit)  // Ensures (2)
{
  ASSERT_TRUE(write_file(path("a"), "old"));
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  rlimit const tight{4096, usual.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  auto const written = write_file(path("a"), std::string(100'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("File too large"));
  EXPECT_EQ(content_of(path("a")), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, WritesAllFilesOrNone)  // Ensures (1) (2)
{
  ASSERT_TRUE(write_file(path("a"), "old"));
  for (std::string const& bad : {path("no/such/folder"), folder_.string()}) {
    std::vector<file_content> const files = {
        {path("a"), "new"}, {bad, "lost"}, {path("b"), "never"}};
    auto const written = write_files(files);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ballast::error_code::unwritable);
    EXPECT_EQ(written.error().position, 1U);
    EXPECT_THAT(written.error().message, HasSubstr("'" + bad + "'"));
    EXPECT_EQ(content_of(path("a")), "old");
    EXPECT_EQ(entries(), 1);
  }
  EXPECT_TRUE(write_files({}));
  std::vector<file_content> const files = {{path("a"), "new"}, {path("b"), "too"}};
  ASSERT_TRUE(write_files(files));
  EXPECT_EQ(content_of(path("a")), "new");
  EXPECT_EQ(content_of(path("b")), "too");
  EXPECT_EQ(entries(), 2);
}

TEST_F(WriteFile, ReportsAFullDisk)
{
  if (!fs::exists("/dev/full")) { GTEST_SKIP() << "this system has no /dev/full"; }
  auto const written = write_file("/dev/full", "x");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("No space left on device"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(WriteFile, ReplacesWhatALinkPointsTo)
{
  ASSERT_TRUE(write_file(path("a"), "old"));
  fs::create_symlink("a", path("link"));
  fs::create_symlink("b", path("dangling"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  ASSERT_TRUE(write_file(path("dangling"), "too"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_symlink(path("dangling")));
  EXPECT_EQ(content_of(path("a")), "new");
  EXPECT_EQ(content_of(path("b")), "too");
  // A link is no reason to lose the old content: it was written in place once.
  auto const failed = write_files(
      std::vector<file_content>{{path("link"), "lost"}, {path("no/such/folder"), "lost"}});
  EXPECT_FALSE(failed);
  EXPECT_EQ(content_of(path("a")), "new");
  EXPECT_EQ(entries(), 4);
}

TEST_F(WriteFile, WritesOpenFilesInPlace)
{
  std::FILE* const open = std::fopen(path("a").c_str(), "w+");
  ASSERT_NE(open, nullptr);
  ASSERT_TRUE(write_file("/dev/fd/" + std::to_string(fileno(open)), "new"));
  std::array<char, 8> read{};
  EXPECT_EQ(std::fread(read.data(), 1, read.size(), open), 3U);
  EXPECT_STREQ(read.data(), "new");
  (void)std::fclose(open);
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, SparesFilesThatNobodyNamed)  // Ensures (3)
{
  ASSERT_TRUE(write_file(path("a.part"), "mine"));
  ASSERT_TRUE(write_file(path("mine"), "mine"));
  fs::create_symlink("mine", path("b.part"));
  ASSERT_TRUE(write_files(std::vector<file_content>{{path("a"), "new"}, {path("b"), "new"}}));
  ASSERT_TRUE(write_files(std::vector<file_content>{{path("c.part"), "1"}, {path("c"), "2"}}));
  EXPECT_EQ(content_of(path("a.part")), "mine");
  EXPECT_EQ(content_of(path("mine")), "mine");
  EXPECT_EQ(content_of(path("c.part")), "1");
  EXPECT_EQ(content_of(path("c")), "2");
}

TEST_F(WriteFile, RefusesAReadOnlyFile)
{
  ASSERT_TRUE(write_file(path("a"), "old"));
  fs::permissions(path("a"), fs::perms::owner_read);
  auto const written = write_file(path("a"), "new");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message,
            "cannot write '" + path("a") +
                "': the file is read-only; allow writing to it or choose another");
  EXPECT_EQ(content_of(path("a")), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, KeepsPermissions)  // Ensures (1)
{
  auto const permissions = [&] { return fs::status(path("a")).permissions(); };
  std::ofstream(path("a")) << "old";
  auto const usual = permissions();
  fs::remove(path("a"));
  ASSERT_TRUE(write_file(path("a"), "old"));
  EXPECT_EQ(permissions(), usual);
  for (auto const own : {fs::perms::owner_read | fs::perms::owner_write, usual | fs::perms::all}) {
    fs::permissions(path("a"), own);
    ASSERT_TRUE(write_file(path("a"), "new"));
    EXPECT_EQ(permissions(), own);
  }
}

}  // namespace
