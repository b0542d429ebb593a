// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/runtime/detail/coarse_to_fine.hpp>

#include <cstddef>
#include <set>

namespace {

using ballast::detail::coarse_to_fine;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(CoarseToFine, BeginsWithTheEndsAndHalvesTheGaps)
{
  EXPECT_THAT(coarse_to_fine(0), IsEmpty());
  EXPECT_THAT(coarse_to_fine(1), ElementsAre(0));
  EXPECT_THAT(coarse_to_fine(2), ElementsAre(0, 1));
  EXPECT_THAT(coarse_to_fine(3), ElementsAre(0, 2, 1));
  EXPECT_THAT(coarse_to_fine(9), ElementsAre(0, 8, 4, 2, 6, 1, 3, 5, 7));
}

TEST(CoarseToFine, HasEveryNumberOnce)
{
  for (std::size_t count = 0; count < 100; ++count) {
    auto const order = coarse_to_fine(count);
    EXPECT_EQ(order.size(), count);
    EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), count);
  }
}

}  // namespace
