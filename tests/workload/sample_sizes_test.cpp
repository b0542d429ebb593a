// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/read_file.hpp>
#include <ballast/workload/sample_sizes.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using ballast::read_sample_sizes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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
