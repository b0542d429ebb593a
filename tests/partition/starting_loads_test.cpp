// SPDX-License-Identifier: Apache-2.0
// Work that bags have before a step, through the front door.

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../support/policy_checks.hpp"
#include "../support/test.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace starting_loads_test {

using namespace ballast;
using namespace ballast_test;

TEST(StartingLoads, SendASampleToTheRankThatHasLess)
{
  std::vector<ballast::tokens> const lengths = {3000};
  std::vector<std::int64_t> const before = {10'000, 2'000};  // of each rank, in the cost's unit
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), std::identity{},
                                       {.starting_loads = before});
  // The sample goes to rank 1, and the makespan is 10,000: no plan is shorter.
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->owner[sample_id{0}], bag_id{1});
  EXPECT_EQ(plan->loads, (std::vector<std::int64_t>{10'000, 5'000}));
  EXPECT_TRUE(plan->proven_optimal());
}

void expect_counted(policy_ref const& policy, bool is_exact)
{
  int const trials = trials_of(300);
  auto const found = compare_with_all_plans(policy, 71, trials, [](random_source& random, int) {
    instance step = random_instance(random, 7, 3, 1);
    step.gpu_speeds.clear();
    step.before = random_loads(random, step, 60);
    std::int64_t const unit = random.below(2) == 0 ? 1 : 128;
    for (auto& cost : step.costs) { cost *= unit; }
    for (auto& load : step.before) { load *= unit; }
    if (random.below(8) == 0) { step.before[0] += 1; }
    return step;
  });
  if (is_exact) { EXPECT_EQ(found.proven, trials); }
}

TEST(StartingLoads, AreCountedByEveryPolicy)
{
  expect_counted(longest_processing_time{}, false);
  expect_counted(baselines::karmarkar_karp{}, false);
  expect_counted(refine{}, false);
  expect_counted(refine<>{.nodes = std::uint64_t{1} << 24}, true);
}

TEST(StartingLoads, CountInEveryQuantity)
{
  std::vector<cost_vector<2>> const samples = {{30, 5}, {20, 60}};
  std::vector<std::int64_t> const before = {100, 0, 20, 90};  // of bag 0, of bag 1
  auto const plan =
      partition(samples, one_gpu_bags(2), std::identity{}, no_length{}, {.starting_loads = before})
          .value();
  EXPECT_EQ(plan.loads, (std::vector<cost_vector<2>>{{120, 60}, {50, 95}}));
  EXPECT_TRUE(plan.proven_within(0.2));
}

TEST(StartingLoads, CountBesidesPaddedBatchesAndCaps)
{
  std::vector<tokens> const lengths = {8, 7, 5};
  std::vector<std::int64_t> const before = {30, 0};
  auto const padded = partition(lengths, one_gpu_bags(2), std::identity{},
                                {.starting_loads = before}, padded_batches{})
                          .value();
  EXPECT_EQ(padded.loads, (std::vector<std::int64_t>{30, 24}));
  // A cap counts the lengths of the samples alone.
  auto const within = partition(lengths, one_gpu_bags(2), std::identity{},
                                {.most_per_gpu = 12, .starting_loads = before})
                          .value();
  EXPECT_EQ(within.loads, (std::vector<std::int64_t>{38, 12}));
}

TEST(BagCapacities, HoldForBagsAsAWhole)
{
  std::vector<tokens> const lengths = {8, 7, 5};
  std::vector<std::int64_t> const room = {8, 12};
  auto const plan =
      partition(lengths, one_gpu_bags(2), std::identity{}, {.also = {{.most = room}}}).value();
  EXPECT_EQ(plan.loads, room) << "[8] [7 5]";
  auto const both = partition(lengths, one_gpu_bags(2), std::identity{},
                              {.also = {{.most_per_gpu = 11, .most = room}}});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().code, error_code::infeasible) << "20 and room for 8 and 11";
  std::vector<std::int64_t> const one = {8};
  EXPECT_EQ(partition(lengths, one_gpu_bags(2), std::identity{}, {.also = {{.most = one}}})
                .error()
                .message,
            "limits.also.most has 1 entry for 2 bags; give one for each bag, or none");
}

TEST(StartingLoads, AreRefusedInASentence)
{
  std::vector<tokens> const lengths = {8, 7};
  auto const why = [&](std::vector<std::int64_t> const& before) {
    return partition(lengths, one_gpu_bags(2), std::identity{}, {.starting_loads = before}).error();
  };
  EXPECT_EQ(why({1}).message,
            "limits.starting_loads has 1 entry for 2 bags; give one for each bag, or none");
  EXPECT_EQ(why({1, -4}).position, 1U);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(why({most, 0}).code, error_code::out_of_range);
  std::vector<std::int64_t> const large = {most / 2, 0};
  std::vector<std::int64_t> const costs = {most / 2, 5};
  auto const over =
      partition(costs, one_gpu_bags(2), std::identity{}, no_length{}, {.starting_loads = large});
  EXPECT_EQ(over.error().message,
            "the samples and limits.starting_loads together cost more than 63 bits hold; use a "
            "coarser unit for both");
  auto const by_two = [&](std::vector<std::int64_t> const& before) {
    return partition(costs, one_gpu_bags(2),
                     [](std::int64_t cost) { return cost_vector<2>{1, cost}; }, no_length{},
                     {.starting_loads = before})
        .error()
        .message;
  };
  EXPECT_EQ(by_two(large),
            "limits.starting_loads has 2 entries for 2 bags; give 2 for each bag, or none");
  EXPECT_EQ(by_two({0, 0, 0, most / 2}),
            "the samples and limits.starting_loads together cost more than 63 bits hold in "
            "dimension 1; use a coarser unit for both");
}

}  // namespace starting_loads_test
