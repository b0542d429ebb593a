#include <ballast/partition/partition_plan.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using namespace ballast;

partition_plan with(ratio makespan, ratio lower_bound)
{
  partition_plan plan;
  plan.makespan = makespan;
  plan.lower_bound = lower_bound;
  return plan;
}

TEST(PartitionPlan, SaysHowFarItIsFromTheBest)
{
  EXPECT_DOUBLE_EQ(with({150, 1}, {100, 1}).gap(), 0.5);
  EXPECT_FALSE(with({150, 1}, {100, 1}).proven_optimal());
  EXPECT_EQ(with({50, 2}, {25, 1}).gap(), 0.0);
  EXPECT_TRUE(with({50, 2}, {25, 1}).proven_optimal());
}

TEST(PartitionPlan, HasNoGapWithoutWork)
{
  EXPECT_EQ(partition_plan{}.gap(), 0.0);
  EXPECT_TRUE(partition_plan{}.proven_optimal());
  EXPECT_EQ(with({0, 3}, {0, 1}).gap(), 0.0);
}

TEST(PartitionPlan, DoesNotTakeRoundedQuotientsForAGapBelowZero)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_GE(with({most - 1, 3}, {most - 2, 3}).gap(), 0.0);
  EXPECT_FALSE(with({most - 1, 3}, {most - 2, 3}).proven_optimal());
}

TEST(PartitionPlan, IsProvenWithinAShare)
{
  constexpr std::int64_t bound = 1'000'000'000'000'000;
  partition_plan const near = with({bound + 100'000'000, 1}, {bound, 1});  // 1e-7
  EXPECT_FALSE(near.proven_optimal());
  EXPECT_TRUE(near.proven_within(1e-6));
  EXPECT_FALSE(near.proven_within(9e-8));
  EXPECT_FALSE(near.proven_within(0));
  EXPECT_FALSE(with({bound + 1, 1}, {bound, 1}).proven_within(0));
  EXPECT_TRUE(with({bound, 1}, {bound, 1}).proven_within(0));
  EXPECT_TRUE(partition_plan{}.proven_within(0));
}

TEST(PartitionPlan, HasADigestThatMovementDoesNotEnter)
{
  partition_plan plan;
  plan.owner = {bag_id{0}, bag_id{1}};
  plan.costs = {3, 4};
  plan.loads = {3, 4};
  auto const before = plan.digest();
  plan.moved = {1, 2};
  EXPECT_EQ(plan.digest(), before);  // where samples lay is no part of who computes what
  plan.loads = {4, 3};
  EXPECT_NE(plan.digest(), before);
  plan.loads = {3, 4};
  plan.bags_digest = 1;
  EXPECT_NE(plan.digest(), before);
}

}  // namespace
