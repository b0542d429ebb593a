// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/follow_links.hpp>  // first: proves it is self-contained

#include "../support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using ballast::follow_links;

class FollowLinks : public testing::Test {
 protected:
  [[nodiscard]] std::string path(char const* name) const { return (folder_ / name).string(); }

  ballast_test::temporary_folder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(FollowLinks, LeavesWhatIsNoLink)  // Ensures (1)
{
  std::ofstream(path("file")) << "x";
  for (std::string const& plain : {path("file"), path("nothing"), folder_.string(),
                                   std::string("a"), std::string(), std::string("/")}) {
    EXPECT_EQ(follow_links(plain), plain);
  }
}

TEST_F(FollowLinks, GoesToTheEndOfAChain)  // Ensures (2)
{
  fs::create_directory(path("deep"));
  fs::create_symlink("deep/second", path("first"));
  fs::create_symlink(path("third"), path("deep/second"));
  fs::create_symlink("deep/../nothing", path("third"));
  EXPECT_EQ(follow_links(path("first")), path("deep/../nothing"));
}

TEST_F(FollowLinks, StopsAtOpenFiles)  // Ensures (3)
{
  fs::create_symlink("/proc/self/fd/0", path("input"));
  EXPECT_EQ(follow_links(path("input")), "/proc/self/fd/0");
  EXPECT_EQ(follow_links("/dev/fd/0"), "/dev/fd/0");
}

TEST_F(FollowLinks, EndsInACircle)  // Ensures (4)
{
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_TRUE(fs::is_symlink(follow_links(path("a"))));
}

}  // namespace
