// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/work_budget.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

using ballast::detail::work_budget;

TEST(WorkBudget, CountsDownAndStopsAtNothing)  // Ensures (1)
{
  work_budget budget(10);
  budget.spend(3);
  EXPECT_EQ(budget.left(), 7U);
  EXPECT_FALSE(budget.spent());
  budget.spend(8);
  EXPECT_EQ(budget.left(), 0U);
  EXPECT_TRUE(budget.spent());
  EXPECT_TRUE(work_budget(0).spent());
}

}  // namespace
