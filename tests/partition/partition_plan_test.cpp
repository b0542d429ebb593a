#include <ballast/partition/partition_plan.hpp>  // first: proves it is self-contained

#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

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

TEST(PartitionPlan, HasADigestOfWhoComputesWhat)
{
  partition_plan plan;
  plan.owner = {bag_id{0}, bag_id{1}};
  plan.costs = {3, 4};
  plan.loads = {3, 4};
  expect_digest_of_all(
      plan, {[](auto& of) { of.owner[0] = bag_id{1}; }, [](auto& of) { of.owner[1] = bag_id{0}; },
             [](auto& of) { of.costs[0] += 1; }, [](auto& of) { of.costs[1] += 1; },
             [](auto& of) { of.loads[0] += 1; }, [](auto& of) { of.loads = {4, 3}; },
             [](auto& of) { of.bags_digest = 1; }});
  auto const before = plan.digest();
  plan.moved = {1, 2};  // where samples lay is no part of it
  EXPECT_EQ(plan.digest(), before);
}

TEST(CostVectorPlan, SaysHowGoodItIsAndHasADigestOfAll)
{
  cost_vector_plan<2> plan;
  plan.owner = {bag_id{0}, bag_id{1}};
  plan.costs = {{4, 1}, {2, 5}};
  plan.loads = {{4, 1}, {2, 5}};
  plan.makespan = {5, 2};
  plan.lower_bound = {2, 1};
  EXPECT_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
  expect_digest_of_all(
      plan, {[](auto& of) { of.owner[0] = bag_id{1}; }, [](auto& of) { of.costs[1] = {5, 2}; },
             [](auto& of) { of.loads[0][1] = 2; }, [](auto& of) { of.bags_digest = 8; }});
  plan.lower_bound = {10, 4};
  EXPECT_EQ(plan.gap(), 0.0);
  EXPECT_TRUE(plan.proven_optimal());
  EXPECT_EQ(cost_vector_plan<2>{}.gap(), 0.0);
  EXPECT_NE(cost_vector_plan<1>{}.digest(), cost_vector_plan<2>{}.digest());
}

using load_list = std::vector<cost_units>;
using speed_list = std::vector<std::uint32_t>;

TEST(MakespanOf, IsTheLargestLoadPerSpeed)
{
  EXPECT_EQ(makespan_of(load_list{7, 3}, speed_list{1, 1}), (ratio{7, 1}));
  EXPECT_EQ(makespan_of(load_list{7, 3}, speed_list{4, 1}), (ratio{3, 1}));
  EXPECT_EQ(makespan_of(load_list{7, 3}, speed_list{2, 1}), (ratio{7, 2}));
  EXPECT_EQ(makespan_of(load_list{0, 0}, speed_list{2, 1}), (ratio{0, 1}));
}

TEST(MakespanOfDeathTest, RefusesLoadsOfOtherBags)
{
  EXPECT_DEATH((void)makespan_of(load_list{1}, speed_list{1, 2}), "loads of 1 bag and speeds of 2");
}

}  // namespace
