// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/counting_sort.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace {

using ballast::detail::counting_sort;

TEST(CountingSort, IsAStableSortByKey)  // Ensures (1) (2)
{
  std::mt19937_64 random(20240607);
  for (int trial = 0; trial < 200; ++trial) {
    std::size_t const keys = random() % 6;
    std::vector<std::size_t> key(keys == 0 ? 0 : random() % 20);
    std::vector<std::size_t> offsets(keys + 1, 0);
    for (std::size_t& each : key) { ++offsets[(each = random() % keys) + 1]; }
    std::vector<std::size_t> expected(key.size());
    std::iota(expected.begin(), expected.end(), 0U);
    std::ranges::sort(expected, {},
                      [&](std::size_t index) { return std::pair(key[index], index); });

    std::vector<std::size_t> sorted(key.size());
    std::size_t next = 0;
    counting_sort(
        offsets, key.size(), [&](std::size_t index) { return key[index]; },
        [&](std::size_t index, std::size_t position) {
          EXPECT_EQ(index, next++);
          sorted[position] = index;
        });

    EXPECT_EQ(sorted, expected) << "trial " << trial;
    for (std::size_t of = 0; of <= keys; ++of) {
      EXPECT_EQ(offsets[of], static_cast<std::size_t>(std::ranges::count_if(
                                 key, [of](std::size_t each) { return each < of; })));
    }
  }
}

}  // namespace
