// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/route_plan.hpp>

#include "../support/test.hpp"

namespace {

using ballast::rank_id;
using ballast::row_traffic;
using ballast::tokens;
using testing::ElementsAreArray;

TEST(RowTraffic, ReversedIsWhatTheReverseExchangeMoves)
{
  std::array<tokens, 2> const sent{0, 3};
  std::array<tokens, 2> const received{0, 5};
  row_traffic const there{rank_id{0}, 10, 12, sent, received};
  row_traffic const back = there.reversed();
  EXPECT_EQ(back.rank, rank_id{0});
  EXPECT_EQ(back.rows_before, 12);
  EXPECT_EQ(back.rows_after, 10);
  EXPECT_THAT(back.sent, ElementsAreArray(received));
  EXPECT_THAT(back.received, ElementsAreArray(sent));
}

}  // namespace
