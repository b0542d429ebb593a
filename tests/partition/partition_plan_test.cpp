#include <ballast/partition/partition_plan.hpp>  // first: proves it is self-contained

#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

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

TEST(CostVectorPlan, HasADigestOfAll)
{
  cost_vector_plan<2> plan;
  plan.owner = {bag_id{0}, bag_id{1}};
  plan.costs = {{4, 1}, {2, 5}};
  plan.loads = {{4, 1}, {2, 5}};
  expect_digest_of_all(
      plan, {[](auto& of) { of.owner[0] = bag_id{1}; }, [](auto& of) { of.costs[1] = {5, 2}; },
             [](auto& of) { of.loads[0][1] = 2; }, [](auto& of) { of.bags_digest = 8; }});
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
