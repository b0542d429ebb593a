// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/row_array.hpp>

#include "../support/test.hpp"

namespace {

template <class T>
concept can_travel_as_rows =
    requires(std::span<T const> from, std::span<T> to) { ballast::rows_of(from, to); };
static_assert(can_travel_as_rows<float>);
static_assert(!can_travel_as_rows<std::string>);  // bytes of a string are not the string

TEST(RowArray, CountsBytesPerToken)
{
  std::vector<std::uint16_t> const from(12);
  std::vector<std::uint16_t> to(6);
  auto const array = ballast::rows_of(from, to, 3);
  EXPECT_EQ(array.row_bytes, 6U);
  EXPECT_EQ(array.from.size(), 24U);
  EXPECT_EQ(array.to.size(), 12U);
  EXPECT_EQ(static_cast<void const*>(array.to.data()), to.data());
}

TEST(RowArrayDeathTest, HasAtLeastOneElementAToken)
{
  std::vector<float> data(3);
  EXPECT_DEATH((void)ballast::rows_of(data, data, 0), "rows of 0 elements");
}

}  // namespace
