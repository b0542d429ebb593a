// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/saturating_sum.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;

__extension__ typedef __int128 wide;

RC_GTEST_PROP(SaturatingSum, IsTheSumOrOverflow, ())  // Ensures (1)
{
  auto const cost = [] { return *rc::gen::inRange<cost_units>(0, no_cost); };
  cost_units const a = cost();
  cost_units const b = cost();
  wide const exact = static_cast<wide>(a) + b;
  RC_ASSERT(saturating_sum(a, b) ==
            static_cast<cost_units>(std::min(exact, static_cast<wide>(no_cost))));
}

TEST(SaturatingSum, IsExactUpToTheLastCost)
{
  static_assert(saturating_sum(2, 3) == 5);
  EXPECT_EQ(saturating_sum(no_cost - 2, 1), no_cost - 1);
  EXPECT_EQ(saturating_sum(no_cost - 1, 1), no_cost);
  EXPECT_EQ(saturating_sum(1, no_cost - 1), no_cost);
  EXPECT_EQ(saturating_sum(no_cost, 0), no_cost);
  EXPECT_EQ(saturating_sum(no_cost, no_cost), no_cost);
}

TEST(SaturatingSumDeathTest, RejectsNegativeCosts)
{
  EXPECT_DEATH((void)saturating_sum(-1, 0), "a cost of -1 was to be added");
  EXPECT_DEATH((void)saturating_sum(0, -1), "a cost of -1 was to be added");
}

}  // namespace
