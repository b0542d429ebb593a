// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/read_plan.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace {

using ballast::bag_id;
using ballast::error_code;
using ballast::rank_id;
using ballast::to_id;
using ballast::report::load_plan;
using ballast::report::plan_row;
using ballast::report::read_plan;
using testing::ElementsAre;
using testing::HasSubstr;

std::string const plan_columns = "step,sample,rank,slot,tokens,cost,bag\n";

TEST(ReadPlan, TakesWhatTheProgramWrites)
{
  auto const plan = read_plan(plan_columns + "0,2,1,0,95,190,0\n1,0,3,2,7,14,1\n").value();
  EXPECT_THAT(plan, ElementsAre(plan_row{0, 2, to_id<rank_id>(1), 0, 95, 190, to_id<bag_id>(0)},
                                plan_row{1, 0, to_id<rank_id>(3), 2, 7, 14, to_id<bag_id>(1)}));
  EXPECT_TRUE(read_plan(plan_columns)->empty());
}

TEST(ReadPlan, TakesColumnsInAnyOrderAmongOthers)
{
  auto const plan = read_plan("source,bag,cost,tokens,slot,rank,sample,step\n4,6,5,4,3,2,1,0\n");
  EXPECT_THAT(plan.value(),
              ElementsAre(plan_row{0, 1, to_id<rank_id>(2), 3, 4, 5, to_id<bag_id>(6)}));
}

void expect_refused_plan(std::string const& csv, std::size_t line, std::string const& why)
{
  auto const plan = read_plan(csv);
  ASSERT_FALSE(plan.has_value()) << csv;
  EXPECT_EQ(plan.error().code, error_code::bad_row);
  EXPECT_EQ(plan.error().position, line);
  EXPECT_THAT(plan.error().message, HasSubstr(why));
}

TEST(ReadPlan, NamesLineAndColumnOfWhatItRefuses)
{
  expect_refused_plan("", 1, "there is no header; write step,sample,rank,slot,tokens,cost,bag");
  expect_refused_plan("step,sample,rank,slot,tokens,cost\n", 1, "there is no column 'bag'");
  expect_refused_plan("bag," + plan_columns, 1, "there are two columns 'bag'");
  expect_refused_plan(plan_columns + "0,0,0,0,1,1,0\n0,0,0,0,1,1\n", 3,
                      "the number of fields is 6");
  expect_refused_plan(plan_columns + "0,0,-1,0,1,1,0\n", 2,
                      "line 2: column 'rank' holds '-1', expected a whole number from 0 to");
  expect_refused_plan(plan_columns + "0,0,0,0,1,1,4294967296\n", 2,
                      "column 'bag' holds '4294967296'");
  expect_refused_plan(plan_columns + "0,0,0,0,1.5,1,0\n", 2, "column 'tokens' holds '1.5'");
  EXPECT_THAT(load_plan("/no/such/plan.csv").error().message, HasSubstr("/no/such/plan.csv"));
}

}  // namespace
