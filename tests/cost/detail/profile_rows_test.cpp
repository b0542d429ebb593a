// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <ballast/cost/detail/profile_rows.hpp>

#include <cstddef>
#include <string>

namespace {

using ballast::detail::form_of;
using ballast::detail::profile_column;
using ballast::detail::profile_header;
using ballast::detail::profile_quantity;
using ballast::detail::profile_row_reader;

static_assert(form_of(profile_quantity::schema).name == "schema");
static_assert(form_of(profile_quantity::activation_bytes).name == "activation_bytes");
static_assert(form_of(profile_quantity::state_bytes).layers);

TEST(ProfileRows, ComeOneByOne)
{
  std::string const csv =
      profile_header() + "\n,,hardware,,,a,,,,\nllm,2,linear_flop_per_second,,7,1.6,1,,,\n";
  profile_row_reader rows(csv);
  ASSERT_TRUE(rows.read_header());
  ASSERT_TRUE(rows.next().value());
  EXPECT_EQ(rows.quantity(), profile_quantity::hardware);
  EXPECT_EQ(rows.field(profile_column::value), "a");
  ASSERT_TRUE(rows.next().value());
  EXPECT_EQ(rows.quantity(), profile_quantity::linear_flop_per_second);
  EXPECT_EQ(rows.number(profile_column::tp, 1, 8).value(), 2U);
  EXPECT_FALSE(rows.number(profile_column::tp, 3, 8));
  EXPECT_FALSE(rows.number(profile_column::value, 1, 8)) << "not whole";
  EXPECT_EQ(rows.number(profile_column::value, 1, 8, true).value(), 2U) << "rounded";
  EXPECT_EQ(rows.refuse("no").value().message, "line 3: no");
  EXPECT_FALSE(rows.next().value());
}

TEST(ProfileRows, MayLackTheSpread)
{
  std::string const csv = profile_header(6) + "\nllm,2,linear_flop_per_second,,7,1\n";
  profile_row_reader rows(csv);
  ASSERT_TRUE(rows.read_header());
  ASSERT_TRUE(rows.next().value());
  EXPECT_EQ(rows.field(profile_column::backward_ns), "");
}

}  // namespace
