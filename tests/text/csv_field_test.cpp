// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/csv_field.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/text/csv.hpp>

#include <string>

namespace {

using ballast::csv_field;

TEST(CsvField, IsInQuotesWhereItNeedsThem)
{
  EXPECT_EQ(csv_field("8 x H100"), "8 x H100");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("d=64,layers=2"), "\"d=64,layers=2\"");
  EXPECT_EQ(csv_field("the \"large\" one"), "\"the \"\"large\"\" one\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
}

RC_GTEST_PROP(CsvField, IsReadBack, (std::string const& text))
{
  std::string const row = "first," + csv_field(text) + ",last\n";
  ballast::csv_reader reader(row);
  auto const fields = reader.next().value().fields;
  RC_ASSERT(fields.size() == 3U);
  RC_ASSERT(fields[1] == text);
  RC_ASSERT(fields[2] == "last");
}

}  // namespace
