#include <ballast/partition/detail/search/makespan_search.hpp>  // first: proves it is self-contained

#include "../../../support/plain_swaps.hpp"
#include "../../../support/policy_checks.hpp"
#include "../../../support/steady_state.hpp"
#include "../../../support/test.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

/// The search from the plan of a policy, without exchanges before it.
template <class Inner>
refine<Inner> exact(Inner inner, std::uint64_t nodes = std::uint64_t{1} << 24)
{
  return {inner, 0, 0, nodes};
}
refine<> exact()
{
  return {.nodes = std::uint64_t{1} << 24};
}

TEST(MakespanSearch, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_plans(exact(longest_processing_time{}, 20'000), 7);
  expect_starting_loads_counted(exact());
}

TEST(MakespanSearch, FindsAndProvesTheOptimum)  // Ensures (2) (4)
{
  for (cost_units const most_before : {0, 300}) {
    int const trials = trials_of(most_before == 0 ? 2000 : 1000);
    auto const found =
        compare_with_all_plans(exact(), 20240608, trials, [&](random_source& random, int trial) {
          auto step = random_instance(random, 8, 4, trial % 2 == 0 ? 1 : 6);
          step.before = random_loads(random, step, most_before);
          return step;
        });
    EXPECT_EQ(found.optimal, trials);
    EXPECT_EQ(found.proven, trials);
  }
}

RC_GTEST_PROP(MakespanSearch, IsNeverWorseThanItsInnerPolicyNorBelowTheOptimum,
              (std::vector<std::uint16_t> const& costs))  // Ensures (3) (4)
{
  instance step;
  for (std::uint16_t const cost : costs) {
    if (step.costs.size() == 9) { break; }
    step.costs.push_back(cost);
    step.lengths.push_back(cost % 7);
  }
  std::vector<std::vector<std::uint32_t>> const layouts{{1, 1, 1}, {1}, {1, 2, 4}, {1, 1, 3}};
  step.gpus = *rc::gen::elementOf(layouts);
  ratio const best = *optimum(step);
  auto const inner = *plan_instance(step, round_robin{});
  for (std::uint64_t const nodes : {0U, 1U, 30U, 300U, 3000U}) {
    auto const plan = *plan_instance(step, exact(round_robin{}, nodes));
    RC_ASSERT(plan.makespan >= best);
    RC_ASSERT(plan.makespan <= inner.makespan);
    RC_ASSERT(plan.lower_bound <= best);
    RC_ASSERT(plan.lower_bound >= inner.lower_bound);
    if (nodes == 0) { RC_ASSERT(plan.owner == inner.owner); }
  }
}

// 100 samples in 25 bags, four in each: greedy plans are off. Two and a half in each of 28 bags: bag
// completion alone proves none of these.
TEST(MakespanSearch, SettlesTheHardZone)
{
  for (auto const& [samples, bags] : {std::pair{100U, 25U}, {70U, 28U}}) {
    for (std::uint64_t const seed : {1U, 3U, 4U, 5U}) {
      SCOPED_TRACE(testing::Message() << bags << " bags, seed " << seed);
      random_source random(seed);
      instance step;
      step.gpus.assign(bags, 1);
      step.lengths.assign(samples, 1);
      step.costs.resize(samples);
      for (cost_units& cost : step.costs) { cost = random.between(1, 1000); }
      EXPECT_FALSE(plan_instance(step, longest_processing_time{})->proven_optimal());
      auto const plan = plan_instance(step, exact());
      expect_valid_plan(step, *plan);
      EXPECT_TRUE(plan->proven_optimal());
    }
  }
}

TEST(MakespanSearch, ProvesWhatNoBoundKnows)
{
  // A third of all is 10, and 10 alone is a bag; but no set with a 6 costs 10.
  instance const step{{1, 1, 1, 1, 1, 1}, {10, 6, 6, 3, 3, 2}, {1, 1, 1}};
  auto const greedy = plan_instance(step, longest_processing_time{});
  auto const plan = plan_instance(step, exact());
  EXPECT_EQ(greedy->lower_bound, (ratio{10, 1}));
  EXPECT_EQ(plan->lower_bound, (ratio{11, 1}));
  EXPECT_EQ(plan->makespan, (ratio{11, 1}));
}

// Thirds and a little more: two to a bag, though all together would fill 14.02 bags of 15.
TEST(MakespanSearch, RefutesWhatSimpleBoundsAllow)
{
  instance step;
  step.costs.assign(31, 340);
  step.costs.insert(step.costs.end(), 31, 112);
  step.lengths.assign(62, 1);
  step.gpus.assign(15, 1);
  EXPECT_GT(plan_instance(step, exact())->lower_bound, (ratio{1000, 1}));
  step.gpus.push_back(1);
  EXPECT_LE(plan_instance(step, exact())->makespan, (ratio{1000, 1}));
}

TEST(MakespanSearch, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  for (auto const& costs :
       {std::vector<cost_units>{most / 2, most / 2}, std::vector<cost_units>{most - 2, 1, 1},
        std::vector<cost_units>{most / 3, most / 4, most / 5, most / 6}}) {
    instance const step{std::vector<tokens>(costs.size(), 9), costs, {8, 3, 1}};
    auto const plan = plan_instance(step, exact());
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_plan(step, *plan);
  }
}

TEST(MakespanSearch, AllocatesNothingInTheSteadyState)
{
  expect_the_same_again_without_allocation(exact(longest_processing_time{}, 400'000), 40,
                                           std::identity{}, one_gpu_bags(15));
}

TEST(MakespanSearch, ProvesMostStepsOfNearlyEqualCosts)
{
  random_source random(71);
  int proven = 0;
  constexpr int trials = trials_of(60);
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const bags = 2 + random.below(9);
    auto const step =
        near_equal_step(random, bags * (2 + random.below(20)) + random.below(bags), bags);
    auto const plan = plan_instance(step, refine<>{.nodes = 1'000'000});
    ASSERT_LE(plan->makespan, (ratio{*plain_swaps(step.costs, bags), 1}));
    proven += plan->proven_optimal() ? 1 : 0;
  }
  EXPECT_GE(proven, trials / 2);
}

TEST(MakespanSearch, IsNeverWorseWithMoreNodes)  // Ensures (3)
{
  random_source random(72);
  for (int trial = 0; trial < trials_of(60); ++trial) {
    auto const step =
        trial % 2 == 0 ? random_instance(random, 30, 9, 4) : near_equal_step(random, 23, 5);
    ratio makespan{std::numeric_limits<cost_units>::max(), 1};
    ratio bound;
    for (std::uint64_t nodes = 1; nodes < 500'000; nodes = nodes * 4 + 1) {
      auto const plan = plan_instance(step, (exact(round_robin{}, nodes)));
      ASSERT_LE(plan->makespan, makespan) << "trial " << trial << " nodes " << nodes;
      ASSERT_GE(plan->lower_bound, bound) << "trial " << trial << " nodes " << nodes;
      makespan = plan->makespan;
      bound = plan->lower_bound;
    }
  }
}

}  // namespace
