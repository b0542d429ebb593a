// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/read_file.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <filesystem>
#include <fstream>

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

TEST(ReadFile, HandsTheTextToAReaderAndPutsThePathInFrontOfItsErrors)
{
  auto const count = [](std::string_view text, char letter) -> ballast::result<std::size_t> {
    if (text.empty()) { return ballast::fail(error_code::bad_row, 1, "line 1: there is nothing"); }
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), letter));
  };
  auto const path = (std::filesystem::path(testing::TempDir()) / "read_file_test").string();
  std::ofstream(path, std::ios::binary) << "banana";
  EXPECT_EQ(read_file(path, count, 'a').value(), 3U);
  std::ofstream(path, std::ios::binary | std::ios::trunc).close();
  auto const refused = read_file(path, count, 'a');
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, error_code::bad_row);
  EXPECT_EQ(refused.error().position, 1U);
  EXPECT_EQ(refused.error().message, path + ": line 1: there is nothing");
  std::filesystem::remove(path);
  EXPECT_EQ(read_file(path, count, 'a').error().code, error_code::unreadable);
}

}  // namespace
