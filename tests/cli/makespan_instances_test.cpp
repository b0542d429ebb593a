// SPDX-License-Identifier: Apache-2.0
#include "../../examples/ballast/makespan_instances.hpp"  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace {

using ballast::error_code;
using cli::makespan_instance;
using cli::read_makespan_instance;
using testing::StartsWith;

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

TEST(MakespanInstance, MayBeCutOff)
{
  auto const cut_off = cli::read_makespan_instance("2\n2\n5\n");
  ASSERT_FALSE(cut_off);
  EXPECT_EQ(cut_off.error().position, 4U);
  EXPECT_THAT(cut_off.error().message, StartsWith("line 4: the text ends"));
}

}  // namespace
