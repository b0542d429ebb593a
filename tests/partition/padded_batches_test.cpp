#include <ballast/partition/padded_batches.hpp>  // first: proves it is self-contained

#include "../support/plan_checks.hpp"
#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"

#include <ballast/cost/quadratic_cost.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using testing::ElementsAre;

static_assert(partition_policy<padded_batches>);

// Bags that each take every sample: sizes vary with `largest_bag`, lengths are no obstacle.
instance unconstrained(random_source& random, std::size_t most_samples, std::size_t most_bags,
                       std::uint32_t largest_bag)
{
  instance step = random_instance(random, most_samples, most_bags, largest_bag);
  for (tokens& length : step.lengths) { length = length == 0 ? 0 : length + 8; }
  return step;
}

TEST(PaddedBatches, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  static_assert(batching_of(padded_batches{}) == batching::padded);
  for (padded_batches const policy : {padded_batches{}, padded_batches{.orders = 0}}) {
    expect_valid_plans(policy, 2);
    expect_starting_loads_counted(policy);
  }
}

TEST(PaddedBatches, TakesNoTimeForPaddingThatCanBeAvoided)
{
  // [padded]
  std::vector<ballast::tokens> const frames{100, 90, 40, 40, 30, 20, 10};
  auto const plan = ballast::partition(frames, ballast::one_gpu_bags(3), ballast::quadratic_cost{1},
                                       {}, ballast::padded_batches{});
  // [padded]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->loads, ElementsAre(100, 180, 160));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(PaddedBatches, FindsTheOptimumOfBagsOfOneKind)  // Ensures (3)
{
  int const trials = trials_of(1500);
  auto const found = compare_with_all_plans(
      padded_batches{.orders = 0}, 20240607, trials, [](random_source& random, int) {
        instance step = unconstrained(random, 9, 4, 1);
        step.gpu_speeds.assign(step.gpus.size(), static_cast<std::uint32_t>(1 + random.below(3)));
        return step;
      });
  EXPECT_EQ(found.optimal, trials);
  EXPECT_EQ(found.proven, trials);
}

TEST(PaddedBatches, FindsTheOptimumOfBagsOfSeveralKinds)  // Ensures (4)
{
  int const trials = trials_of(1500);
  auto const found =
      compare_with_all_plans(padded_batches{}, 8, trials, [](random_source& random, int trial) {
        instance step = unconstrained(random, 8, 4, 5);
        if (trial % 2 == 0) { step.before = random_loads(random, step, 300); }
        return step;
      });
  EXPECT_EQ(found.optimal, trials);
  EXPECT_EQ(found.proven, trials);
}

// Oracle: the best way to cut the samples, heaviest first, into m runs. O(m n^2).
cost_units best_cuts(std::vector<cost_units> costs, std::size_t bags)
{
  std::ranges::sort(costs, std::greater{});
  std::size_t const samples = costs.size();
  constexpr auto never = std::numeric_limits<cost_units>::max();
  std::vector<cost_units> best(samples + 1, never);
  best[0] = 0;
  for (std::size_t bag = 0; bag < bags; ++bag) {
    std::vector<cost_units> next = best;  // this bag may stay empty
    for (std::size_t first = 0; first < samples; ++first) {
      for (std::size_t last = first + 1; last <= samples && best[first] != never; ++last) {
        cost_units const load = static_cast<cost_units>(last - first) * costs[first];
        next[last] = std::min(next[last], std::max(best[first], load));
      }
    }
    best = next;
  }
  return best[samples];
}

RC_GTEST_PROP(PaddedBatches, CutsSortedSamplesInTheBestPlaces, ())  // Ensures (3)
{
  auto const costs = *rc::gen::container<std::vector<tokens>>(rc::gen::inRange<tokens>(0, 5000));
  auto const bags = *rc::gen::inRange<std::size_t>(1, 12);
  auto const plan = partition(
      costs, one_gpu_bags(bags), [](tokens length) { return length; }, {}, padded_batches{});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->makespan == (ratio{best_cuts(costs, bags), 1}));
  RC_ASSERT(plan->proven_optimal());
}

TEST(PaddedBatches, PadsLeastOfPlansWithOneMakespan)  // Ensures (7)
{
  auto const loads_of = [](std::vector<tokens> const& costs, std::size_t bags,
                           std::int64_t most_per_gpu) {
    return partition(costs, one_gpu_bags(bags), std::identity{}, {.most_per_gpu = most_per_gpu},
                     padded_batches{})
        .value()
        .loads;
  };
  EXPECT_THAT(loads_of({8, 5, 4, 1}, 4, 100), ElementsAre(8, 5, 4, 1));
  random_source random(22);
  for (int trial = 0; trial < trials_of(200); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<tokens> costs(random.below(8));
    for (tokens& cost : costs) { cost = random.below(6) == 0 ? 40 : random.between(0, 20); }
    std::size_t const bags = 1 + random.below(4);
    auto const loads = loads_of(costs, bags, 300);
    instance const step{costs, costs, std::vector<std::uint32_t>(bags, 1), {}, {}, costs};
    // Oracle: of all plans with no larger load, the least sum of what they pad to.
    auto const least = least_of_all(costs.size(), bags, [&](assignment const& owner) {
      auto const padded = step.loads(owner);
      return std::ranges::max(padded) > std::ranges::max(loads)
                 ? std::nullopt
                 : std::optional(std::reduce(padded.begin(), padded.end()));
    });
    ASSERT_EQ(std::reduce(loads.begin(), loads.end()), least);
  }
}

TEST(PaddedBatches, GivesBagsTheirSamplesInDescendingOrder)
{
  instance const step{{9, 9, 9, 9}, {3, 8, 8, 3}, {1, 1, 1}};
  auto const plan = plan_instance(step, padded_batches{}).value();
  EXPECT_EQ(plan.makespan, (ratio{8, 1}));
  EXPECT_EQ(plan.owner[1], bag_id{0});  // of equal costs the lower sample to the lower bag
  EXPECT_EQ(plan.owner[2], bag_id{1});
  EXPECT_EQ(plan.owner[0], bag_id{2});
  EXPECT_EQ(plan.owner[3], bag_id{2});
}

TEST(PaddedBatches, CountsWhatItPadsAgainstALimit)
{
  std::vector<tokens> const lengths{100, 1, 1, 1};
  auto const planned = [&](std::int64_t most_per_gpu, std::size_t gpus) {
    return partition(lengths, one_gpu_bags(gpus), std::identity{}, {.most_per_gpu = most_per_gpu},
                     padded_batches{});
  };
  auto const refused = planned(110, 1);  // which holds the 103 tokens, but not 400
  expect_refused(refused, error_code::infeasible, 1,
                 "brings bag 0 to 2 samples padded to the heaviest, of 100,");
  EXPECT_TRUE(planned(400, 1));
  EXPECT_FALSE(planned(399, 1));
  EXPECT_TRUE(planned(110, 2));  // 100, and three of one
}

TEST(PaddedBatches, KeepsALimitOfPaddedWeight)  // Ensures (6)
{
  random_source random(77);
  int limited = 0;
  int refused = 0;
  for (int trial = 0; trial < trials_of(1000); ++trial) {
    std::vector<tokens> lengths(random.below(7));
    for (tokens& length : lengths) { length = random.between(1, 9); }
    std::size_t const bags = 1 + random.below(3);
    tokens const cap = random.between(9, 24);
    auto const cost = [](tokens length) { return length * (length + 5); };
    auto const plan =
        partition(lengths, one_gpu_bags(bags), cost, {.most_per_gpu = cap}, padded_batches{});
    instance step{lengths, lengths, std::vector<std::uint32_t>(bags, 1)};
    for (cost_units& each : step.costs) { each = cost(each); }
    step.padded = step.costs;
    instance const held{lengths, lengths, step.gpus, {}, {}, lengths};
    auto const best = optimum_where(
        step, [&](assignment const& owner) { return std::ranges::max(held.loads(owner)) <= cap; });
    ASSERT_EQ(plan.has_value(), best.has_value()) << "trial " << trial;
    refused += plan ? 0 : 1;
    if (!plan) { continue; }
    ASSERT_EQ(plan->makespan, *best) << "trial " << trial;
    ASSERT_TRUE(plan->proven_optimal());
    auto const free = partition(lengths, one_gpu_bags(bags), cost, {}, padded_batches{});
    limited += free->owner != plan->owner ? 1 : 0;
  }
  if (!is_sanitized) { EXPECT_GT(limited, 0); }  // of few steps it may limit none
  EXPECT_GT(refused, 0);
}

TEST(PaddedBatches, AcceptsTheEdges)
{
  auto const plan_of = [](std::vector<tokens> const& lengths, std::size_t bags) {
    return *partition(
        lengths, one_gpu_bags(bags), [](tokens length) { return length; }, {}, padded_batches{});
  };
  EXPECT_THAT(plan_of({}, 3).loads, ElementsAre(0, 0, 0));
  EXPECT_THAT(plan_of({7}, 3).loads, ElementsAre(7, 0, 0));
  EXPECT_THAT(plan_of({3, 5}, 1).loads, ElementsAre(10));
  EXPECT_THAT(plan_of({0, 0, 0}, 2).loads, ElementsAre(0, 0));
  EXPECT_THAT(plan_of({0, 4, 0}, 2).loads, ElementsAre(4, 0));  // no sample of none is padded
  EXPECT_THAT(plan_of({0, 4, 0}, 1).loads, ElementsAre(12));
  EXPECT_THAT(plan_of({5, 5, 5, 5, 5}, 2).makespan, (ratio{15, 1}));
}

TEST(PaddedBatches, ChargesConvolutionAndAttentionOfPaddedSamples)
{
  // A padded sample of l tokens costs l (1 + lambda l), here with lambda = 1/1000.
  quadratic_cost const cost{.linear = 1000, .quadratic = 1};
  std::vector<tokens> const frames{2000, 1500, 400, 300, 300, 200};
  auto const plan = partition(frames, one_gpu_bags(3), cost, {}, padded_batches{}).value();
  EXPECT_EQ(plan.makespan, (ratio{2000 * 1000 + 2000 * 2000, 1}));
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PaddedBatches, WorksUpToTheLargestLoads)
{
  constexpr auto most = std::numeric_limits<cost_units>::max() - 1;
  for (std::vector<std::uint32_t> const& speeds :
       {std::vector<std::uint32_t>{1, 1}, {1, 4294967295}, {4294967291, 4294967279}}) {
    direct_problem problem(instance{{9, 9}, {most / 2, most / 2}, {1, 1}});
    problem.speeds = speeds;
    auto const plan = plan_directly(problem.view(), padded_batches{}, {0, 0});
    std::size_t const on_second = speeds[0] < speeds[1] ? 2 : 1;
    EXPECT_EQ(std::ranges::count(plan.owner, bag_id{1}), static_cast<std::ptrdiff_t>(on_second));
  }
  EXPECT_FALSE(partition(
      std::vector<tokens>{1, 2, 3}, one_gpu_bags(2),
      [](tokens length) { return length == 3 ? most / 2 : 1; }, {}, padded_batches{}));
}

TEST(PaddedBatches, IsNearTheOptimumOfOtherBagsAndBoundsIt)  // Ensures (5)
{
  int const trials = trials_of(600);
  auto const found = compare_with_all_plans(
      padded_batches{.orders = 0}, 23, trials, [](random_source& random, int trial) {
        instance step = random_instance(random, 8, 4, trial % 2 == 0 ? 1 : 5);
        if (trial % 3 == 0) { step.before = random_loads(random, step, 300); }
        if (trial % 4 != 0) { return step; }
        // With speeds of 31 bits, times are rounded.
        step.gpus.assign(step.gpus.size(), 1);
        step.gpu_speeds.resize(step.gpus.size());
        std::iota(step.gpu_speeds.begin(), step.gpu_speeds.end(), 1U << 30);
        return step;
      });
  EXPECT_GT(found.bounds, 0.8 * trials);
  EXPECT_LT(found.makespans, 1.02 * trials);
}

TEST(PaddedBatches, FindsTheOrderOfManySpeeds)  // Ensures (5)
{
  random_source random(24);
  std::vector<std::uint32_t> speeds(16);
  std::vector<tokens> lengths(256);
  for (std::uint32_t& speed : speeds) {
    speed = static_cast<std::uint32_t>(random.between(50, 100));
  }
  for (tokens& length : lengths) { length = 100 << random.below(8); }
  auto const plan = partition(lengths, one_gpu_bags(16).with_speeds(speeds), quadratic_cost{1}, {},
                              padded_batches{});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_LT(plan->gap(), 0.05);
}

TEST(PaddedBatches, AllocatesNothingInTheSteadyState)
{
  for (std::vector<std::uint32_t> const& gpus :
       {std::vector<std::uint32_t>(12, 1), std::vector<std::uint32_t>{1, 1, 2, 2, 4}}) {
    auto const bags = consecutive_bags(gpus);
    for (padded_batches const policy : {padded_batches{}, padded_batches{.orders = 0}}) {
      expect_the_same_again_without_allocation(policy, 1000, std::identity{}, bags);
    }
  }
}

TEST(PaddedBatchesDeathTest, RefusesMismatchedSpans)
{
  direct_problem const problem(instance{{1}, {1}, {1}});
  EXPECT_DEATH(plan_directly(problem.view(), padded_batches{}, {}), "`loads` is empty");
}

}  // namespace
