// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/heap_sort.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using ballast::detail::heap_sort;

TEST(HeapSort, SortsAsStdSortDoes)  // Ensures (1)
{
  ballast::random_source random(20240607);
  for (std::size_t size = 0; size < 100; ++size) {
    for (std::uint64_t const different : {std::uint64_t{3}, std::uint64_t{1} << 60}) {
      std::vector<std::uint64_t> items(size);
      for (auto& item : items) { item = random.below(different); }
      std::vector<std::uint64_t> expected = items;
      std::sort(expected.begin(), expected.end());
      heap_sort(items, std::less<>());
      EXPECT_EQ(items, expected) << size << " items";
      heap_sort(items, std::greater<>());
      EXPECT_TRUE(std::equal(items.begin(), items.end(), expected.rbegin()));
    }
  }
}

TEST(HeapSort, TriesEveryOrderOfFewItems)
{
  std::string items = "abbcdee";
  std::string const sorted = items;
  do {
    std::string copy = items;
    heap_sort(copy, std::less<>());
    ASSERT_EQ(copy, sorted) << items;
  } while (std::next_permutation(items.begin(), items.end()));
}

TEST(HeapSort, MovesItems)
{
  std::vector<std::unique_ptr<int>> items;
  for (int value = 0; value < 20; ++value) {
    items.push_back(std::make_unique<int>(value * 7 % 20));
  }
  heap_sort(items, [](auto const& a, auto const& b) { return *a < *b; });
  for (std::size_t place = 0; place < items.size(); ++place) {
    EXPECT_EQ(*items[place], static_cast<int>(place));
  }
}

}  // namespace
