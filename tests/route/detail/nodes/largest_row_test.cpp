// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/largest_row.hpp>

#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

using ballast::tokens;
using ballast::detail::largest_row;

TEST(LargestRow, IsTheFirstOfTheLargestNumbers)  // Ensures (1) (2)
{
  ballast::random_source random(1);
  for (std::size_t rows = 1; rows < 20; ++rows) {
    ballast::workspace memory;
    auto scratch = memory.open();
    largest_row row(rows, scratch);
    EXPECT_EQ(row.value(), largest_row::least);
    std::vector<tokens> values(rows, largest_row::least);
    for (int change = 0; change < 60; ++change) {
      std::size_t const at = random.below(rows);
      values[at] = random.between(-1, 6);
      row.set(at, values[at]);
      auto const largest = std::ranges::max_element(values);
      ASSERT_EQ(row.value(), *largest);
      if (*largest != largest_row::least) {
        ASSERT_EQ(row.index(), static_cast<std::size_t>(largest - values.begin()));
      }
      ASSERT_EQ(row[at], values[at]);
    }
    row.clear();
    EXPECT_EQ(row.value(), largest_row::least);
  }
}

}  // namespace
