// SPDX-License-Identifier: Apache-2.0
#include "../support/counted_allocations.hpp"

#include <gtest/gtest.h>
#include <ballast/text/column_expression.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/workload/batch_sampler.hpp>
#include <ballast/workload/data_code.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace {

using ballast_test::allocations;

TEST(SteadyState, ReadsCsvRowsWithoutAllocating)
{
  std::string csv = "a,b,label\n\"1\",2,\"he said \"\"a longer field than any other\"\"\"\n";
  for (int row = 0; row < 100; ++row) { csv += "\"3\",4,\"with \"\"quotes\"\" inside\"\n5,6,\n"; }
  ballast::csv_reader reader(csv);
  auto const expression =
      ballast::parse_column_expression("2*a+(b-1)", reader.next().value().fields).value();
  EXPECT_EQ(expression.evaluate(reader.next().value()).value(), 3);

  std::size_t const before = allocations();
  for (int row = 0; row < 200; ++row) {
    ASSERT_EQ(expression.evaluate(reader.next().value()).value(), row % 2 == 0 ? 9 : 15);
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(reader.next().value().fields.empty());
}

TEST(SteadyState, SamplesBatchesWithoutAllocating)
{
  ballast::batch_sampler sampler(std::vector<ballast::tokens>(100, 7), 64, 8, 42);
  ballast::sample_batch step;
  sampler.next_into(step);
  std::size_t const before = allocations();
  for (int i = 0; i < 50; ++i) { sampler.next_into(step); }
  EXPECT_EQ(allocations(), before);
}

TEST(SteadyState, DrawsDataCodesWithoutAllocating)
{
  auto const codes = ballast::parse_data_codes("g4b4i256f1s0,g4b1i512f85s1").value();
  ballast::random_source random(42);
  ballast::sample_batch step;
  ASSERT_TRUE(ballast::draw_batch_into(step, codes, 32, {}, random));
  std::size_t const before = allocations();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(ballast::draw_batch_into(step, codes, 32, {}, random));
  }
  EXPECT_EQ(allocations(), before);
}

}  // namespace
