// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/rise_and_fall.hpp>  // first: proves it is self-contained

#include "../../../support/numbered_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

std::vector<int> risen_and_fallen(std::size_t microbatches, std::size_t every)
{
  std::vector<ballast::microbatch_id> order(microbatches);
  ballast::detail::rise_and_fall(ballast_test::numbered_order(microbatches), order, every);
  std::vector<int> numbers;
  for (auto const at : order) { numbers.push_back(static_cast<int>(at)); }
  return numbers;
}

TEST(RiseAndFall, PutsEveryNthToTheEndTheFirstLast)
{
  EXPECT_EQ(risen_and_fallen(7, 2), (std::vector{0, 2, 4, 6, 5, 3, 1}));
  EXPECT_EQ(risen_and_fallen(9, 4), (std::vector{0, 1, 2, 4, 5, 6, 8, 7, 3}));
  EXPECT_EQ(risen_and_fallen(3, 4), (std::vector{0, 1, 2}));
  EXPECT_EQ(risen_and_fallen(3, 1), (std::vector{2, 1, 0}));
}

TEST(RiseAndFall, HasEveryMicrobatchOnceAndOnePeak)
{
  for (std::size_t count = 0; count < 20; ++count) {
    for (std::size_t every = 1; every < 6; ++every) {
      auto order = risen_and_fallen(count, every);
      auto const peak = std::ranges::max_element(order);
      EXPECT_TRUE(std::is_sorted(order.begin(), peak));
      EXPECT_TRUE(std::is_sorted(order.rbegin(), std::vector<int>::reverse_iterator(peak)));
      std::ranges::sort(order);
      for (std::size_t each = 0; each < count; ++each) {
        EXPECT_EQ(order[each], static_cast<int>(each));
      }
    }
  }
}

}  // namespace
