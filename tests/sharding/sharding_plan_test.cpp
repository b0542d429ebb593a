// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/sharding_plan.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using namespace ballast;

sharding_plan two_gpus()
{
  sharding_plan plan;
  plan.owner = {group_id{2}, group_id{0}};
  plan.costs = {30, 20};
  plan.loads = {50, 30};
  plan.tokens_of = {8, 4};
  plan.makespan = 50;
  plan.lower_bound = 40;
  return plan;
}

TEST(ShardingPlan, SaysHowEvenAndHowGoodItIs)
{
  sharding_plan plan = two_gpus();
  EXPECT_DOUBLE_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
  EXPECT_DOUBLE_EQ(plan.balance_ratio(), 1.25);
  EXPECT_DOUBLE_EQ(plan.token_balance_ratio(), 8.0 / 6.0);
  plan.lower_bound = 50;
  EXPECT_EQ(plan.gap(), 0);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(ShardingPlan, WithoutWorkIsEven)
{
  EXPECT_EQ(sharding_plan{}.gap(), 0);
  EXPECT_EQ(sharding_plan{}.balance_ratio(), 1);
  EXPECT_EQ(sharding_plan{}.token_balance_ratio(), 1);
}

TEST(ShardingPlan, HasADigestThatEveryDecisionEnters)
{
  sharding_plan const plan = two_gpus();
  EXPECT_EQ(plan.digest(), two_gpus().digest());
  sharding_plan other = plan;
  other.owner[1] = group_id{1};
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  other.costs[0] = 31;
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  other.loads[0] = 51;
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  other.groups_digest = 1;
  EXPECT_NE(other.digest(), plan.digest());
}

}  // namespace
