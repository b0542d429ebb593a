// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/unfinished_files.hpp>  // first: proves it is self-contained

#include <ballast/text/write_file.hpp>

#include "../support/temporary_folder.hpp"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace {

namespace fs = std::filesystem;

TEST(UnfinishedFiles, AreRemovedInTheMiddleOfAWrite)  // Ensures (1) (2)
{
  ballast_test::temporary_folder const temporary;
  fs::path const folder = temporary.path();
  auto const pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(folder / "old") << "old";
  auto const entries = [&] { return std::distance(fs::directory_iterator(folder), {}); };

  // The write waits for somebody to read the pipe, with the other file written and not in place.
  ballast::unfinished_files unfinished;
  std::array<ballast::file_content, 2> const files = {
      {{(folder / "old").string(), "new"}, {pipe, "x"}}};
  ballast::result<void> written;
  std::thread writer([&] { written = write_files(files, unfinished); });
  for (int tries = 0; entries() == 2 && tries < 10'000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(entries(), 3);
  errno = 7;
  unfinished.remove();
  EXPECT_EQ(errno, 7);
  EXPECT_EQ(entries(), 2);
  std::string read;
  std::ifstream(pipe) >> read;
  writer.join();

  EXPECT_EQ(read, "x");
  EXPECT_FALSE(written);  // what should replace "old" is gone
  std::string kept;
  std::ifstream(folder / "old") >> kept;
  EXPECT_EQ(kept, "old");
  EXPECT_EQ(entries(), 2);
  unfinished.remove();  // nothing is left to remove
  EXPECT_EQ(entries(), 2);
}

}  // namespace
