// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/read_file.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

using ballast::error_code;
using ballast::read_file;
using testing::HasSubstr;

TEST(ReadFile, BringsEveryByte)
{
  std::string content(200'000, 'x');  // more than one chunk
  content += '\0';
  content += "\r\n\xff";
  auto const path = (std::filesystem::path(testing::TempDir()) / "read_file_test").string();
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(read_file(path).value(), content);
  std::ofstream(path, std::ios::binary | std::ios::trunc).close();
  EXPECT_EQ(read_file(path).value(), "");
  std::filesystem::remove(path);
}

TEST(ReadFile, SaysWhatCannotBeReadAndWhy)
{
  auto const missing = read_file("/no/such/file");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, error_code::unreadable);
  EXPECT_EQ(missing.error().message,
            "/no/such/file: No such file or directory; name a file that can be read");
  auto const folder = read_file(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("Is a directory"));
}

}  // namespace
