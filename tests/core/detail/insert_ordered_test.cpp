// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/insert_ordered.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

TEST(InsertOrdered, OrdersAsSortingDoesAndKeepsEqualsAsTheyCame)
{
  using keyed = std::pair<std::uint64_t, int>;
  auto const before = [](keyed const& a, keyed const& b) { return a.first < b.first; };
  ballast::random_source random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<keyed> inserted;
    std::vector<keyed> sorted;
    for (int number = 0; number < 20; ++number) {
      keyed const each{random.below(6), number};
      ballast::detail::insert_ordered(inserted, each, before);
      sorted.push_back(each);
      std::ranges::sort(sorted);  // equal ones by number: as they came
      ASSERT_EQ(inserted, sorted);
    }
  }
}

}  // namespace
