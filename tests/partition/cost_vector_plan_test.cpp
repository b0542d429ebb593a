#include <ballast/partition/partition_plan.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;

cost_vector_plan<2> vectors_in_two_bags()
{
  cost_vector_plan<2> plan;
  plan.owner = {bag_id{0}, bag_id{1}};
  plan.costs = {{4, 1}, {2, 5}};
  plan.loads = {{4, 1}, {2, 5}};
  plan.makespan = {5, 2};
  plan.lower_bound = {2, 1};
  plan.bags_digest = 7;
  return plan;
}

TEST(CostVectorPlan, SaysHowGoodItIs)
{
  auto plan = vectors_in_two_bags();
  EXPECT_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
  plan.lower_bound = {10, 4};
  EXPECT_EQ(plan.gap(), 0.0);
  EXPECT_TRUE(plan.proven_optimal());
  EXPECT_EQ(cost_vector_plan<2>{}.gap(), 0.0);
}

TEST(CostVectorPlan, DigestsWhateverIsSent)
{
  std::set<std::uint64_t> digests{vectors_in_two_bags().digest()};
  auto plan = vectors_in_two_bags();
  plan.owner[0] = bag_id{1};
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = vectors_in_two_bags();
  plan.costs[1] = {5, 2};
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = vectors_in_two_bags();
  plan.loads[0][1] = 2;
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = vectors_in_two_bags();
  plan.bags_digest = 8;
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  EXPECT_FALSE(digests.insert(vectors_in_two_bags().digest()).second);
  EXPECT_NE(cost_vector_plan<1>{}.digest(), cost_vector_plan<2>{}.digest());
}

}  // namespace
