// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/tables.hpp>

#include "../support/test.hpp"

namespace {

using ballast::device_rows;
using ballast::rows_of;

static_assert(sizeof(ballast::peer_rows) == 16, "one load");
static_assert(sizeof(device_rows) <= 256, "by value to every kernel");

TEST(DeviceRows, HaveWhatTheArraysSay)
{
  std::vector<float> const x(12);
  std::vector<float> y(18);
  std::vector<std::int32_t> const tags(4);
  std::vector<std::int32_t> tags_there(6);
  device_rows const rows(std::vector{rows_of(x, y, 3), rows_of(tags, tags_there)});
  ASSERT_EQ(rows.count, 2U);
  EXPECT_EQ(rows.arrays[0].from, reinterpret_cast<std::byte const*>(x.data()));
  EXPECT_EQ(rows.arrays[0].to, reinterpret_cast<std::byte*>(y.data()));
  EXPECT_EQ(rows.arrays[0].row_bytes, 12U);
  EXPECT_EQ(rows.arrays[1].row_bytes, 4U);
  EXPECT_EQ(device_rows({}).count, 0U);
}

TEST(DeviceRowsDeathTest, AreAtMostEight)
{
  std::vector<ballast::row_array> arrays(8);
  EXPECT_EQ(device_rows(arrays).count, 8U);
  arrays.emplace_back();
  EXPECT_DEATH((void)device_rows(arrays), "exchanges 9 arrays, and the most is 8");
}

}  // namespace
