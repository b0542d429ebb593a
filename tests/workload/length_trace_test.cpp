// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

#include "../support/test.hpp"

#include <ballast/workload/synthetic_lengths.hpp>

#include <cstdio>
#include <cstdlib>

namespace {

using namespace ballast;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_bad_row(std::string_view csv, std::string_view expression, std::size_t line,
                    std::string_view message)
{
  auto const lengths = read_length_trace(csv, expression);
  ASSERT_FALSE(lengths) << csv;
  EXPECT_EQ(lengths.error().code, error_code::bad_row) << csv;
  EXPECT_EQ(lengths.error().position, line) << csv;
  EXPECT_EQ(lengths.error().message, message) << csv;
}

TEST(LengthTrace, HasOneLengthPerRow)  // Ensures (1)
{
  std::string_view const csv =
      "\xef\xbb\xbfid,text,\"visual, "
      "all\"\r\n\"a,b\",5,100\r\n\r\nc,0,0\r\n\"d\ne\",2147483647,\"0\"";
  EXPECT_THAT(read_length_trace(csv, "text+`visual, all`").value(),
              ElementsAre(105, 0, longest_sample));
}

TEST(LengthTrace, SaysWhichRowCannotBeUsed)  // Errors
{
  for (std::string_view const empty : {"", "\r", "\n\n"}) {
    expect_bad_row(empty, "a", 1,
                   "line 1: there is no header; write the column names in the first row");
  }
  expect_bad_row("\na,b\n", "a", 2, "line 2: no row follows the header; add samples");
  expect_bad_row(
      "a,b\n1,2\n3\n", "a", 3,
      "line 3: the number of fields is 1, but the header has 2; quote fields that hold commas, or "
      "remove the row");
  expect_bad_row(
      "a,b\n1,2,\n", "a", 2,
      "line 2: the number of fields is 3, but the header has 2; quote fields that hold commas, or "
      "remove the row");
  expect_bad_row("a,b\n1,2\n1,x\n", "a+b", 3,
                 "line 3: column 'b' holds 'x', expected a whole number that fits 64 bits; fix the "
                 "row or choose another column");
  expect_bad_row(
      "a,b\n1,2\n", "a-b", 2,
      "line 2: 'a-b' is -1, expected 0 to 2147483647 tokens; fix the row or choose other "
      "columns");
  expect_bad_row(
      "a\n2147483648\n", "a", 2,
      "line 2: 'a' is 2147483648, expected 0 to 2147483647 tokens; fix the row or choose "
      "other columns");
  expect_bad_row("a\n9223372036854775807\n", "2*a", 2,
                 "line 2: '2*a' does not fit 64 bits; fix the row or choose other columns");
  expect_bad_row("a\n\"1\n", "a", 2,
                 "line 2: the quote that opens this field is never closed; close it or remove it");
  expect_bad_row("\"a\"b\n", "a", 1,
                 "line 1: a quoted field goes on after its closing quote; write a quote inside it "
                 "twice");
}

TEST(LengthTrace, ReportsTheFirstOfSeveralBadRows)  // Ensures (2)
{
  EXPECT_EQ(read_length_trace("a\n1\nx\n-1\n\"", "a").error().position, 3U);
}

TEST(LengthTrace, PassesOnErrorsInTheExpression)
{
  error const unknown = read_length_trace("a,b\n1,2\n", "a+c").error();
  EXPECT_EQ(unknown.code, error_code::unknown_name);
  EXPECT_EQ(unknown.position, 2U);
  EXPECT_EQ(read_length_trace("a\n1\n", "a+").error().code, error_code::syntax);
  error const constant = read_length_trace("1,2\n3,4\n", "1").error();  // meant as a column
  EXPECT_EQ(constant.code, error_code::syntax);
  EXPECT_THAT(constant.message, testing::HasSubstr("'1' names no column"));
}

TEST(LengthTrace, RefusesAnEmptyText)
{
  EXPECT_EQ(read_length_trace("", "text").error().code, error_code::bad_row);
  EXPECT_THAT(read_length_trace("", "text").error().message, HasSubstr("there is no header"));
}

TEST(LengthTrace, ReadsRealVideoQuestions)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA names no folder of real length traces"; }
  std::string const path = std::string(data) + "/nextqa_video.csv";
  auto const trace =
      ballast::read_file(path, ballast::read_length_trace, "text_tokens+video_tokens_qwen2vl");
  ASSERT_TRUE(trace) << trace.error().message;

  ballast::length_histogram const lengths(*trace);
  EXPECT_EQ(lengths.samples(), 13'560U);
  EXPECT_EQ(lengths.min(), 1'313);
  EXPECT_EQ(lengths.quantile({1, 2}), 10'413);
  EXPECT_EQ(lengths.quantile({99, 100}), 38'903);
  EXPECT_EQ(lengths.max(), 66'996);
  EXPECT_EQ(lengths.mean(), (ballast::ratio{176'522'646, 13'560}));  // 13018 tokens
}

std::array<std::string, 2> const two_modules = {"vision", "`the llm`"};

TEST(SampleSizes, AreAColumnOfEachModule)
{
  EXPECT_THAT(read_sample_sizes("the llm,vision\n1860,7\n66,0\n", two_modules).value(),
              ElementsAre(7, 1860, 0, 66));
  std::array<std::string, 3> const expressions = {"4*images", "clips", "text+256*images"};
  EXPECT_THAT(read_sample_sizes("text,images,clips\n5,2,1\n", expressions).value(),
              ElementsAre(8, 1, 517));
  auto const lacking = read_sample_sizes("vision,llm\n7,1860\n", two_modules);
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, ballast::error_code::unknown_name);
  EXPECT_THAT(lacking.error().message, HasSubstr("the llm"));
  auto const negative = read_sample_sizes("vision,the llm\n7,1860\n-1,66\n", two_modules);
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().position, 3U);
}

TEST(SampleSizes, AreReadFromAFile)
{
  auto const path =
      (std::filesystem::temp_directory_path() / "ballast_sample_sizes_test.csv").string();
  std::ofstream(path) << "vision,the llm\n7,1860\n";
  EXPECT_THAT(ballast::read_file(path, read_sample_sizes, two_modules).value(),
              ElementsAre(7, 1860));
  std::filesystem::remove(path);
}

TEST(SampleSizes, StayTogetherWhereRowsAreChosen)
{
  std::array<ballast::tokens, 6> const sizes = {1, 10, 2, 20, 3, 30};
  std::array<std::size_t, 4> const rows = {2, 0, 2, 1};
  EXPECT_THAT(ballast::sizes_of_rows(sizes, 2, rows), ElementsAre(3, 30, 1, 10, 3, 30, 2, 20));
  EXPECT_THAT(ballast::sizes_of_rows(sizes, 2, {}), ElementsAre());
}

TEST(SampleSizesDeathTest, RefuseRowsThatAreNotThere)
{
  std::array<ballast::tokens, 6> const sizes = {1, 10, 2, 20, 3, 30};
  std::array<std::size_t, 1> const rows = {3};
  EXPECT_DEATH((void)ballast::sizes_of_rows(sizes, 2, rows), "sample 3 was asked for of 3");
  EXPECT_DEATH((void)ballast::sizes_of_rows(sizes, 0, rows), "in no module");
  EXPECT_DEATH((void)read_sample_sizes("a\n1\n", {}), "expressions.empty");
}

}  // namespace
