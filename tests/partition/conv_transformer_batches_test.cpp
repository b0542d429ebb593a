#include <ballast/partition/conv_transformer_batches.hpp>  // first: proves it is self-contained

#include "../support/padded_checks.hpp"
#include "../support/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::conv_transformer_batches;
using ballast::cost_units;
using ballast::one_gpu_bags;
using ballast::padded_batches;
using ballast::tokens;
using ballast_test::instance;
using testing::ElementsAre;

static_assert(ballast::partition_policy<conv_transformer_batches>);

TEST(ConvTransformerBatches, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  ballast_test::expect_valid_padded_plans(conv_transformer_batches{}, 2);
  ballast_test::expect_padded_starting_loads_counted(conv_transformer_batches{}, 3);
}

// Oracle: the steps on lists, for bags of one GPU.
std::vector<bag_id> steps_on_lists(instance const& step)
{
  auto const without_padding =
      ballast_test::plan_instance(step, ballast::longest_processing_time{});
  cost_units const bound = std::ranges::max(without_padding->loads);
  std::vector<std::size_t> order(step.costs.size());
  for (std::size_t sample = 0; sample < order.size(); ++sample) { order[sample] = sample; }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return step.costs[a] > step.costs[b] || (step.costs[a] == step.costs[b] && a < b);
  });

  std::vector<ballast_test::padded_bag> bags(step.gpus.size());
  std::vector<bag_id> owner(order.size());
  std::size_t open = 0;
  for (std::size_t const sample : order) {
    while (open < bags.size() && bags[open].count > 0 &&
           (bags[open].count + 1) * bags[open].largest > bound) {
      ++open;
    }
    std::size_t bag = open;
    if (open == bags.size()) {
      for (std::size_t other = bag = 0; other < bags.size(); ++other) {
        if (bags[other].load() < bags[bag].load()) { bag = other; }
      }
    }
    bags[bag].add(step.costs[sample]);
    owner[sample] = ballast::to_id<bag_id>(bag);
  }
  return owner;
}

TEST(ConvTransformerBatches, TakesTheStepsOfAlgorithm5)  // Ensures (3) (4)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = ballast_test::random_instance(random, 40, 8, 1);
    step.gpu_speeds.clear();
    auto const plan = ballast_test::plan_instance(step, conv_transformer_batches{});
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->owner, steps_on_lists(step));
  }
}

TEST(ConvTransformerBatches, AddsWhatIsLeftToTheShortestBag)  // Ensures (3)
{
  // Without padding 16 + 6 and 14 + 8 take 22: so 16 alone, 14 alone, and 8 and 6 are left.
  std::vector<tokens> const lengths{16, 14, 8, 6};
  auto const plan = ballast::partition(lengths, one_gpu_bags(2), conv_transformer_batches{},
                                       ballast::quadratic_cost{1});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->loads, ElementsAre(32, 28));
  EXPECT_THAT(plan->owner, ElementsAre(bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}));
}

TEST(ConvTransformerBatches, IsNeverShorterThanPaddedBatches)
{
  ballast::random_source random(8);
  std::size_t longer = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    auto step = ballast_test::random_instance(random, 60, 8, 1);
    step.gpu_speeds.clear();
    auto const published = ballast_test::plan_instance(step, conv_transformer_batches{});
    auto const best = ballast_test::plan_instance(step, padded_batches{});
    ASSERT_LE(best->makespan, published->makespan) << "trial " << trial;
    longer += best->makespan < published->makespan ? 1 : 0;
  }
  EXPECT_GT(longer, 500U);
}

TEST(ConvTransformerBatches, AcceptsTheEdges)
{
  auto const loads_of = [](std::vector<tokens> const& lengths, std::size_t bags) {
    return ballast::partition(lengths, one_gpu_bags(bags), conv_transformer_batches{},
                              [](tokens length) { return length; })
        ->loads;
  };
  EXPECT_THAT(loads_of({}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({7}, 3), ElementsAre(7, 0, 0));
  EXPECT_THAT(loads_of({3, 5}, 1), ElementsAre(10));
  EXPECT_THAT(loads_of({0, 0, 0}, 2), ElementsAre(0, 0));
  EXPECT_THAT(loads_of({4, 4, 4}, 3), ElementsAre(4, 4, 4));
}

TEST(ConvTransformerBatches, AllocatesNothingInTheSteadyState)
{
  ballast_test::expect_no_allocation(conv_transformer_batches{});
}

TEST(ConvTransformerBatchesDeathTest, RefusesMismatchedSpans)
{
  ballast_test::direct_problem const problem(instance{{1}, {1}, {1}});
  EXPECT_DEATH(ballast_test::plan_directly(problem, conv_transformer_batches{}, {}),
               "`loads` is empty");
}

}  // namespace
