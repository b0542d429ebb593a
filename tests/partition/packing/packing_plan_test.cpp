#include <ballast/partition/packing/packing_plan.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

namespace {

using namespace ballast;

packing_plan packing_in_two_bins()
{
  packing_plan plan;
  plan.owner = {bag_id{0}, bag_id{1}, bag_id{0}};
  plan.weights = {4, 6, 5};
  plan.loads = {9, 6};
  plan.capacity = 10;
  plan.lower_bound = 2;
  plan.samples.collect(plan.owner, 2);
  return plan;
}

TEST(PackingPlan, KnowsWhenNoPackingHasFewerBins)
{
  packing_plan plan = packing_in_two_bins();
  EXPECT_EQ(plan.bins(), 2U);
  EXPECT_TRUE(plan.proven_optimal());
  plan.lower_bound = 1;
  EXPECT_FALSE(plan.proven_optimal());
  EXPECT_TRUE(packing_plan{}.proven_optimal());
}

TEST(PackingPlan, DigestsWhateverIsSent)
{
  std::set<std::uint64_t> digests{packing_in_two_bins().digest()};
  packing_plan plan = packing_in_two_bins();
  plan.owner[0] = bag_id{1};
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = packing_in_two_bins();
  plan.weights[2] = 4;
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = packing_in_two_bins();
  plan.loads[1] = 7;
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  plan = packing_in_two_bins();
  plan.capacity = 11;
  EXPECT_TRUE(digests.insert(plan.digest()).second);
  EXPECT_FALSE(digests.insert(packing_in_two_bins().digest()).second);
}

}  // namespace
