// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/detail/greedy/loaded_bag.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/detail/replace_front.hpp>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace {

using ballast::detail::loaded_bag;
using ballast::detail::replace_front;

TEST(LoadedBag, IsOrderedByLoadAndThenByNumber)
{
  for (ballast::cost_units a = 0; a < 3; ++a) {
    for (ballast::cost_units b = 0; b < 3; ++b) {
      for (std::uint32_t i = 0; i < 3; ++i) {
        for (std::uint32_t j = 0; j < 3; ++j) {
          EXPECT_EQ((loaded_bag{a, i} < loaded_bag{b, j}), std::tie(a, i) < std::tie(b, j));
        }
      }
    }
  }
}

TEST(ReplaceFront, AgreesWithASet)
{
  ballast::random_source random(20240607);
  for (std::size_t size = 1; size < 40; ++size) {
    std::vector<std::uint64_t> heap(size);
    for (auto& item : heap) { item = random.below(8 * size); }
    std::sort(heap.begin(), heap.end());
    std::multiset<std::uint64_t> oracle(heap.begin(), heap.end());
    for (int step = 0; step < 200; ++step) {
      ASSERT_EQ(heap.front(), *oracle.begin()) << size << " items, step " << step;
      std::uint64_t const item = random.below(8 * size);
      oracle.erase(oracle.begin());
      oracle.insert(item);
      replace_front(std::span(heap), item);
    }
  }
}

}  // namespace
