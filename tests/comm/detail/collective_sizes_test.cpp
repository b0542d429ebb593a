// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/collective_sizes.hpp>

#include <gtest/gtest.h>

namespace {

using namespace ballast::detail;
using ballast::rank_id;

TEST(CollectiveSizes, AreAcceptedWhereTheyFit)
{
  expect_gather_sizes(4, 12, 3);
  expect_counts(3, 3, 3);
  expect_exchange_sizes(7, 7, 0, 0);
  expect_root(rank_id{2}, 3);
  expect_peer(rank_id{2}, 3);
}

TEST(CollectiveSizesDeathTest, AreNamedWhereTheyDoNot)
{
  EXPECT_DEATH(expect_gather_sizes(4, 8, 3),
               "all_gather: `receive` has 8 bytes, and 3 ranks send 4 each");
  EXPECT_DEATH(expect_counts(3, 2, 3),
               "`send_bytes` has 3 entries and `receive_bytes` 2, and there are 3 ranks");
  EXPECT_DEATH(expect_exchange_sizes(5, 4, 1, 1),
               "`send` has 5 bytes, and `send_bytes` add up to 4");
  EXPECT_DEATH(expect_exchange_sizes(4, 4, 1, 2),
               "`receive` has 1 bytes, and `receive_bytes` add up to 2");
  EXPECT_DEATH(expect_root(rank_id{3}, 3), "the root is rank 3 of 3 ranks");
  EXPECT_DEATH(expect_peer(rank_id{3}, 3), "a transfer with rank 3 of 3 ranks");
}

}  // namespace
