// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/written_time_rows.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

namespace {

using ballast::detail::read_time_rows;

TEST(WrittenTimeRows, AreThoseOfTheTextWithTheirLines)
{
  std::string_view const csv =
      "forward,stage,microbatch,note,backward\r\n"
      "0.5,1,7,\"two\nlines\",1e3\r\n"
      "2,0,7,,0";
  auto const rows = read_time_rows(csv);
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[0].microbatch, 7U);
  EXPECT_EQ((*rows)[0].stage, 1U);
  EXPECT_EQ((*rows)[0].forward.text(), "0.5");
  EXPECT_EQ((*rows)[0].backward.text(), "1000");
  EXPECT_EQ((*rows)[0].line, 2U);
  EXPECT_EQ((*rows)[1].stage, 0U);
  EXPECT_EQ((*rows)[1].line, 4U);
}

TEST(WrittenTimeRows, RefuseTheFirstRowThatIsWrong)
{
  std::string_view const csv =
      "microbatch,stage,forward,backward\n"
      "0,0,1,2\n"
      "0,1,1,-2\n"
      "0,two,1,2\n";
  auto const rows = read_time_rows(csv);
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().position, 3U);
  EXPECT_THAT(rows.error().message, testing::HasSubstr("line 3: column 'backward': '-2'"));
}

}  // namespace
