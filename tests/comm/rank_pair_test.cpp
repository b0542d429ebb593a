// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/communicator.hpp>

#include "../support/test.hpp"

namespace {

using ballast::rank_id;
using ballast::rank_pair;

TEST(RankPair, IsOrderedByTheSenderFirst)
{
  rank_pair const forth{rank_id{1}, rank_id{2}};
  rank_pair const back{rank_id{2}, rank_id{1}};
  EXPECT_LT(forth, back);
  EXPECT_LT((rank_pair{rank_id{1}, rank_id{0}}), forth);
  EXPECT_EQ(forth, (rank_pair{rank_id{1}, rank_id{2}}));
}

}  // namespace
