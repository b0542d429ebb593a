#include <ballast/partition/vectors/vector_plan.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <set>

namespace {

using ballast::bin_id;

ballast::vector_plan<2> vectors_in_two_bins()
{
  ballast::vector_plan<2> plan;
  plan.owner = {bin_id{0}, bin_id{1}};
  plan.costs = {{4, 1}, {2, 5}};
  plan.loads = {{4, 1}, {2, 5}};
  plan.makespan = 5;
  plan.lower_bound = 4;
  return plan;
}

TEST(VectorPlan, SaysHowGoodItIs)
{
  auto plan = vectors_in_two_bins();
  EXPECT_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
  plan.lower_bound = 5;
  EXPECT_EQ(plan.gap(), 0.0);
  EXPECT_TRUE(plan.proven_optimal());
  EXPECT_EQ(ballast::vector_plan<2>{}.gap(), 0.0);
}

TEST(VectorPlan, DigestsWhateverIsSent)
{
  std::set<std::uint64_t> digests{vectors_in_two_bins().digest()};
  auto plan = vectors_in_two_bins();
  plan.owner[0] = bin_id{1};
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = vectors_in_two_bins();
  plan.costs[1] = {5, 2};
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = vectors_in_two_bins();
  plan.loads[0][1] = 2;
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  EXPECT_FALSE(digests.insert(vectors_in_two_bins().digest()).second);
  EXPECT_NE(ballast::vector_plan<1>{}.digest(), ballast::vector_plan<2>{}.digest());
}

}  // namespace
