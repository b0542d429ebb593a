#include <ballast/partition/greedy_knapsack.hpp>  // first: proves it is self-contained

#include "../support/list_sorting_knapsack.hpp"
#include "../support/policy_checks.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(partition_policy<greedy_knapsack>);

TEST(GreedyKnapsack, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  for (auto const capacity : {knapsack_capacity::remaining, knapsack_capacity::full}) {
    expect_valid_plans(greedy_knapsack{capacity}, 3);
    expect_starting_loads_counted(greedy_knapsack{capacity});
  }
}

TEST(GreedyKnapsack, AgreesWithTheListSortingPlanner)  // Ensures (3)
{
  random_source random(7);
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    auto const step = random_instance(random, 30, 8, 8);
    std::vector<std::uint32_t> speeds;
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      speeds.push_back(step.speed_of(bag));
    }
    for (auto const capacity : {knapsack_capacity::remaining, knapsack_capacity::full}) {
      SCOPED_TRACE(testing::Message()
                   << "trial " << trial << " capacity " << static_cast<int>(capacity));
      auto const plan = plan_instance(step, greedy_knapsack{capacity});
      ASSERT_TRUE(plan);
      ASSERT_EQ(plan->owner, list_sorting_knapsack(step.costs, step.lengths, step.gpus,
                                                   capacity == knapsack_capacity::remaining,
                                                   exact_occupancy{}, speeds));
    }
  }
}

TEST(GreedyKnapsack, FiltersByRemainingCapacityUnlessAskedForFull)
{
  // Mean 10 per GPU, so capacities 10 and 30: 25 goes to the large bag and 6 to the small one.
  instance const step{{9, 9, 9, 9}, {25, 6, 5, 4}, {1, 3}};
  // The 5 has no room left beside the 6, and the 4 then fills the small bag exactly.
  auto const remaining = plan_instance(step, greedy_knapsack{}).value();
  EXPECT_EQ(remaining.owner, (std::vector{bag_id{1}, bag_id{0}, bag_id{1}, bag_id{0}}));
  EXPECT_EQ(remaining.gap(), 0.0);
  // The 5 would fit the small bag were it empty, and at 6/10 that is less occupied than 25/30.
  auto const full = plan_instance(step, greedy_knapsack{knapsack_capacity::full}).value();
  EXPECT_EQ(full.owner, (std::vector{bag_id{1}, bag_id{0}, bag_id{0}, bag_id{1}}));
}

TEST(GreedyKnapsack, SendsWhatFitsNowhereToTheLeastOccupiedLargestBag)
{
  // One sample of 100 against capacities 26, 26 and 51: nothing holds it.
  instance const step{{50, 1, 1}, {100, 1, 1}, {1, 1, 2}};
  auto const plan = plan_instance(step, greedy_knapsack{}).value();
  EXPECT_EQ(plan.owner.front(), bag_id{2});
}

TEST(GreedyKnapsack, GivesFasterBagsMoreWork)
{
  // Mean 10 per speed, so the bags have room for 10 and 30, though both are of one GPU.
  instance const step{{1, 1, 1}, {25, 10, 5}, {1, 1}, {1, 3}};
  auto const plan = plan_instance(step, greedy_knapsack{}).value();
  EXPECT_EQ(plan.owner, (std::vector{bag_id{1}, bag_id{0}, bag_id{1}}));
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(GreedyKnapsack, NeverSplitsASequenceOverMoreGpusThanItHasTokens)
{
  // The heavy sample has three tokens: of bags of 1, 2 and 4 GPUs the one of two is its largest.
  instance const step{{3, 9, 9}, {100, 1, 1}, {1, 2, 4}};
  auto const plan = plan_instance(step, greedy_knapsack{}).value();
  EXPECT_EQ(plan.owner.front(), bag_id{1});
}

}  // namespace
