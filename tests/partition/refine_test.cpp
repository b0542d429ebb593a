#include <ballast/partition/refine.hpp>  // first: proves it is self-contained

#include "../support/plain_swaps.hpp"
#include "../support/policy_checks.hpp"  // defines: ballast_test::{expect_valid_plans, ...}
#include "../support/steady_state.hpp"
#include "../support/test.hpp"

#include <ballast/cost/cost_spec.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

static_assert(partition_policy<refine<>>);
static_assert(partition_policy<refine<refine<round_robin>>>);
static_assert(std::is_same_v<decltype(refine{round_robin{}, 9}), refine<round_robin>>);
static_assert(std::is_same_v<decltype(refine{refine{round_robin{}}}), refine<refine<round_robin>>>);

TEST(Refine, PlacesEverySampleInABagItFits)  // Ensures (1) (2) (5)
{
  expect_valid_plans(refine{}, 51);
  expect_valid_plans(refine{round_robin{}}, 52);
  expect_starting_loads_counted(refine{});
  expect_starting_loads_counted(refine{round_robin{}});
}

TEST(Refine, FindsMostOptima)
{
  constexpr int trials = 400;
  auto const found = compare_with_all_plans(
      refine{round_robin{}}, 53, trials,
      [](random_source& random, int) { return random_instance(random, 8, 4, 3); });
  EXPECT_GE(found.optimal, trials * 95 / 100);
}

TEST(Refine, FindsNearlyAllOptimaWhereCostsAreNearlyEqual)
{
  constexpr int trials = 200;
  auto const found = compare_with_all_plans(refine{}, 61, trials, [](random_source& random, int) {
    return near_equal_step(random, 3 + random.below(7), 2 + random.below(2));
  });
  EXPECT_GE(found.optimal, trials * 99 / 100);
}

TEST(Refine, IsRarelyAboveTheOptimumOfFewShortSamples)
{
  int const trials = trials_of(200);
  auto const found =
      compare_with_all_plans(refine{}, 63, trials, [](random_source& random, int trial) {
        instance step{{}, {}, {1, 2, 4, 8}};
        for (std::uint64_t samples = 3 + random.below(5); samples > 0; --samples) {
          step.lengths.push_back(random.between(1, 20));
          cost_units const length = step.lengths.back();
          step.costs.push_back(trial % 2 == 0 ? random.between(1, 100) : length * (length + 20));
        }
        return step;
      });
  EXPECT_LE(found.worst, 1.05);
  EXPECT_GE(found.optimal, trials * 95 / 100);
}

RC_GTEST_PROP(Refine, IsNeverWorseThanItsInnerPolicyHoweverLittleWork,  // Ensures (3)
              (std::uint64_t seed))
{
  random_source random(seed);
  auto const step = random_instance(random, 60, 9, 8);
  ratio const inner = plan_instance(step, longest_processing_time{})->makespan;
  for (std::uint64_t const work : {0U, 100U, 1'000U, 10'000U, 100'000U}) {
    auto const plan = plan_instance(step, refine{longest_processing_time{}, work});
    RC_ASSERT(plan.has_value());
    RC_ASSERT(plan->makespan <= inner);
    RC_ASSERT(plan->makespan >= plan->lower_bound);
  }
}

TEST(Refine, LeavesThePlanAsItIsWithoutWork)
{
  random_source random(54);
  for (int trial = 0; trial < 200; ++trial) {
    auto const step = random_instance(random, 40, 9, 8);
    EXPECT_EQ(plan_instance(step, (refine{round_robin{}, 0}))->owner,
              plan_instance(step, round_robin{})->owner);
  }
}

// Long-tailed costs without a sample that outweighs the mean load.
instance long_tailed(std::uint64_t seed, std::size_t samples, std::vector<std::uint32_t> gpus)
{
  random_source random(seed);
  instance step;
  step.gpus = std::move(gpus);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    // 2^(x / 100) for x from 0 to 900, with a linear mantissa: integers on every machine.
    auto const power = random.between(0, 900);
    step.costs.push_back(((100 + power % 100) * 400) << (power / 100));
    step.costs.back() += random.between(0, 9999);
    step.lengths.push_back(64);
  }
  return step;
}

TEST(Refine, ProvesTheOptimumWhereBagsHoldManySamples)
{
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const alike = long_tailed(seed, 2048, std::vector<std::uint32_t>(64, 1));
    EXPECT_FALSE(plan_instance(alike, longest_processing_time{})->proven_optimal());
    auto several = long_tailed(seed, 1000, {1, 1, 1, 1, 2, 2, 2, 4, 4, 8});
    several.gpu_speeds = {1, 1, 2, 2, 1, 2, 3, 1, 1, 1};
    for (instance const& step : {alike, several}) {
      auto const plan = plan_instance(step, refine{});
      EXPECT_TRUE(plan->proven_optimal()) << "gap " << plan->gap();
    }
  }
}

// Costs of nine digits, as the README's literal gives them: 2,048 samples on 64 bags need an exact
// exchange for nearly every bag, and by trying subsets in order that was a million steps.
TEST(Refine, ProvesFineCostsWithAThirdOfItsWork)
{
  constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
  random_source random(61);
  for (int trial = 0; trial < 5; ++trial) {
    instance step{{}, {}, std::vector<std::uint32_t>(64, 1)};
    for (int sample = 0; sample < 2048; ++sample) {
      tokens const length =
          random.below(10) == 0 ? random.between(2000, 16'000) : random.between(100, 2000);
      step.lengths.push_back(length);
      step.costs.push_back(cost(length));
    }
    EXPECT_TRUE(plan_instance(step, refine{longest_processing_time{}, 650'000})->proven_optimal());
  }
}

// Lengths padded to 128s: the lightest samples of a bag are equal.
TEST(Refine, ComesCloseWhereLengthsAreMultiples)
{
  double gaps = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    auto step = long_tailed(seed, 2048, std::vector<std::uint32_t>(64, 1));
    for (cost_units& cost : step.costs) {
      cost_units const tiles = 1 + cost / 1'000'000;
      cost = tiles * (144 + tiles);
    }
    gaps += plan_instance(step, refine{})->gap();
  }
  EXPECT_LE(gaps / 10, 1e-4);
}

TEST(Refine, IsOneWordAroundAnotherPolicy)
{
  std::vector<ballast::tokens> const lengths{300, 300, 200, 200, 200};
  auto const cost = [](ballast::tokens length) { return length; };
  auto const bags = ballast::one_gpu_bags(2);
  auto const greedy = ballast::partition(lengths, bags, cost, {}, longest_processing_time{});
  auto const plan = ballast::partition(lengths, bags, cost, {}, refine{longest_processing_time{}});
  ASSERT_TRUE(greedy && plan);
  EXPECT_EQ(greedy->makespan, (ratio{700, 1}));
  EXPECT_EQ(plan->makespan, (ratio{600, 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(Refine, ComesCloseFromAPlanThatIgnoresCosts)
{
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    auto const step = long_tailed(seed, 1024, std::vector<std::uint32_t>(32, 1));
    EXPECT_GT(plan_instance(step, round_robin{})->gap(), 0.1);
    EXPECT_LT(plan_instance(step, refine{round_robin{}})->gap(), 1e-5);
  }
}

TEST(Refine, LevelsLoadsThatBagsBring)
{
  instance step{std::vector<tokens>(7, 1), {7, 6, 5, 4, 3, 2, 1}, {1, 1, 1}, {}, {10, 3, 1}};
  auto const level = plan_directly(direct_problem(step), refine{round_robin{}});
  EXPECT_EQ(level.proven, (ratio{14, 1}));
  EXPECT_EQ(level.loads, (std::vector<cost_units>{14, 14, 14}));
  step.before[0] = 50;  // what the first bag brings is the makespan, wherever samples go
  auto const late = plan_directly(direct_problem(step), refine{});
  EXPECT_EQ(late.proven, (ratio{50, 1}));
  EXPECT_EQ(late.loads[0], 50);
}

TEST(Refine, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<cost_units>::max() - 1;
  instance const step{
      {9, 9, 9, 9, 9}, {most / 3, most / 4, most / 4, most / 8, most / 50}, {1, 1, 3}};
  auto const plan = plan_instance(step, refine{round_robin{}}).value();
  expect_valid_plan(step, plan);
}

// One bag is so fast that nearly all lies there, and two of its samples are drawn for a swap.
TEST(Refine, SwapsInABagWithNearlyTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<cost_units>::max() - 1;
  instance const step{std::vector<tokens>(10, 9),
                      {most / 3, most / 4, most / 5, most / 6, most / 40, 1000, 999, 77, 5, 3},
                      {1, 1},
                      {1U << 20, 1}};
  auto const plan = plan_instance(step, refine{}).value();
  expect_valid_plan(step, plan);
}

TEST(Refine, AllocatesNothingInTheSteadyState)
{
  expect_the_same_again_without_allocation(refine{}, 1000);
}

TEST(Refine, IsHardlyEverAbovePlainSwaps)
{
  random_source random(60);
  int above = 0;
  for (int trial = 0; trial < trials_of(250); ++trial) {
    std::size_t const bags = 2 + random.below(31);
    std::size_t const samples = bags * (1 + random.below(16)) + random.below(bags);
    auto const step = near_equal_step(random, samples, bags);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ' ' << samples << " x " << bags);
    auto const plan = plan_instance(step, refine{});
    cost_units const swapped = *plain_swaps(step.costs, bags);
    ASSERT_LE(plan->makespan, (ratio{swapped + swapped / 10'000, 1}));
    above += plan->makespan > ratio{swapped, 1} ? 1 : 0;
    expect_valid_plan(step, *plan);
  }
  EXPECT_LE(above, trials_of(250) / 100);
}

TEST(Refine, ReachesTheOptimumOfAStepThatNeedsMovesOfShortSamples)
{
  instance const step{{16, 14, 7, 2, 8, 15, 20, 17, 19, 15, 7, 3},
                      {68, 68, 14, 71, 71, 68, 71, 68, 68, 68, 71, 14},
                      {2, 2, 2, 8, 8}};
  EXPECT_EQ(plan_instance(step, refine{})->makespan, (ratio{71, 2}));
}

TEST(Refine, ProvesNearlyEqualCostsWithARemainder)
{
  instance step;
  for (cost_units cost = 1000; cost >= 968; --cost) { step.costs.push_back(cost); }
  step.lengths.assign(step.costs.size(), 1);
  step.gpus = {1, 1};
  auto const plan = plan_instance(step, refine{});
  EXPECT_EQ(plan->makespan, (ratio{16'592, 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(Refine, IsNeverWorseWithMoreWork)  // Ensures (3)
{
  random_source random(62);
  for (int trial = 0; trial < trials_of(150); ++trial) {
    std::size_t const bags = 2 + random.below(9);
    auto const step = trial % 2 == 0 ? random_instance(random, 60, 9, 8)
                                     : near_equal_step(random, bags * 5 + random.below(bags), bags);
    ratio before{std::numeric_limits<cost_units>::max(), 1};
    for (std::uint64_t work = 1; work < 2'000'000; work = work * 3 + 1) {
      auto const plan = plan_instance(step, (refine{round_robin{}, work}));
      ASSERT_LE(plan->makespan, before) << "trial " << trial << " work " << work;
      before = plan->makespan;
    }
  }
}

TEST(Refine, StartsFromTheBetterOfItsInnerPlanAndTheGreedyOne)  // Ensures (3)
{
  random_source random(63);
  for (int trial = 0; trial < 100; ++trial) {
    auto const step = random_instance(random, 60, 9, 8);
    ratio const greedy = plan_instance(step, longest_processing_time{})->makespan;
    EXPECT_LE(plan_instance(step, (refine{round_robin{}, 1}))->makespan, greedy);
  }
}

TEST(RefineDeathTest, RefusesPoliciesThatPad)
{
  instance const step{{1}, {1}, {1}};
  EXPECT_DEATH((void)plan_instance(step, refine{said_by_value<padded_batches>{}}), "pads them");
}

TEST(Refine, EndsBelowTheResolutionOfCostsInSingleFlop)
{
  random_source random(51);
  auto const flop = [](tokens length) { return 226'492'416 * length + 4'977 * length * length; };
  for (int step = 0; step < 5; ++step) {
    std::vector<tokens> lengths(2048);
    for (auto& length : lengths) { length = random.between(64, 16'384); }
    auto const plan = partition(lengths, one_gpu_bags(64), flop);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->proven_within(1e-6)) << plan->gap();
  }
}

}  // namespace
