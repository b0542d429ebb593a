// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/baselines/quadratic_with_tolerance.hpp"  // first: proves it is self-contained

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

namespace {

using baselines::karmarkar_karp;
using baselines::quadratic_with_tolerance;
using namespace ballast;
using testing::ElementsAre;

static_assert(ballast::partition_policy<quadratic_with_tolerance>);

TEST(QuadraticWithTolerance, PlacesEverySampleInABagItFits)  // Ensures (1) (2) (4)
{
  ballast_test::expect_valid_plans(quadratic_with_tolerance{}, 2);
  ballast_test::expect_valid_plans(quadratic_with_tolerance{.tolerance = 1}, 3);
  ballast_test::expect_starting_loads_counted(quadratic_with_tolerance{});
}

// Oracle: scans every bag for every sample.
std::vector<bag_id> scan_all_bags(ballast_test::instance const& step, tokens tolerance)
{
  std::vector<std::size_t> order(step.costs.size());
  for (std::size_t sample = 0; sample < order.size(); ++sample) { order[sample] = sample; }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return step.costs[a] > step.costs[b] || (step.costs[a] == step.costs[b] && a < b);
  });
  std::vector<tokens> sums(step.gpus.size(), 0);
  std::vector<tokens> squares(step.gpus.size(), 0);
  std::vector<bag_id> owner(step.costs.size());
  for (std::size_t const sample : order) {
    tokens const length = step.lengths[sample];
    auto const key = [&](std::size_t bag) {
      std::int64_t const speed = step.speed_of(bag);
      return std::tuple(sums[bag] / (tolerance * speed), ratio{squares[bag], speed}, bag);
    };
    std::size_t best = step.gpus.size();
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      if (!ballast::partition_problem::splits(length, step.gpus[bag])) { continue; }
      if (best == step.gpus.size() || key(bag) < key(best)) { best = bag; }
    }
    sums[best] += length;
    squares[best] += length * length;
    owner[sample] = ballast::to_id<bag_id>(best);
  }
  return owner;
}

TEST(QuadraticWithTolerance, AgreesWithAScanOfAllBags)  // Ensures (3)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 30, 8, 8);
    auto const tolerance = static_cast<tokens>(1 + random.below(20));
    auto const plan = ballast_test::plan_instance(step, quadratic_with_tolerance{tolerance});
    ASSERT_TRUE(plan);
    ASSERT_EQ(plan->owner, scan_all_bags(step, tolerance));
  }
}

TEST(QuadraticWithTolerance, LooksAtSquaresWhereSumsAreNearOneAnother)  // Ensures (3)
{
  // When 30 is placed, one bag has 70 and the other 40 + 40: fewer tokens, and fewer squares.
  std::vector<tokens> const lengths{70, 40, 40, 30};
  auto const last_owner = [&](tokens tolerance) {
    return ballast::partition(lengths, one_gpu_bags(2), quadratic_cost{1}, {},
                              quadratic_with_tolerance{tolerance})
        ->owner.back();
  };
  EXPECT_EQ(last_owner(1), bag_id{0});
  EXPECT_EQ(last_owner(100), bag_id{1});
}

TEST(QuadraticWithTolerance, OrdersBagsTransitively)  // where "within v of each other" does not
{
  // Sums of 0, 4 and 8 with tolerance 5 are of two kinds: 0 and 4, and 8.
  std::vector<tokens> const lengths{8, 4, 3, 3, 3};
  auto const plan = ballast::partition(lengths, one_gpu_bags(3), quadratic_cost{1}, {},
                                       quadratic_with_tolerance{5})
                        .value();
  EXPECT_THAT(plan.loads, ElementsAre(8, 7, 6));
}

// The time that attention and the dense layers take together, as one cost: lambda is 1/3072.
constexpr ballast::quadratic_cost tokens_and_pairs{.linear = 3072, .quadratic = 1};

// Both plan the same step for the same objective; the second sees it.
ballast::partition_plan by_tolerance(std::vector<ballast::tokens> const& lengths)
{
  return *ballast::partition(lengths, ballast::one_gpu_bags(16), tokens_and_pairs, {},
                             baselines::quadratic_with_tolerance{});
}
ballast::partition_plan by_cost(std::vector<ballast::tokens> const& lengths)
{
  return *ballast::partition(lengths, ballast::one_gpu_bags(16), tokens_and_pairs, {},
                             ballast::longest_processing_time{});
}

TEST(QuadraticWithTolerance, IsLongerThanBalancingTheCostItself)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < 50; ++trial) {
    auto const lengths = ballast::draw_lengths(
        ballast::clamped_lengths{ballast::lognormal_lengths{.median = 1024, .sigma = 1.0}, 1, 8192},
        500, random);
    EXPECT_LT(by_cost(lengths).makespan, by_tolerance(lengths).makespan) << "trial " << trial;
  }
}

TEST(QuadraticWithTolerance, WorksUpToTheLongestSamples)
{
  constexpr tokens most = ballast::longest_sample;
  std::vector<tokens> const lengths(8, most);
  auto const plan = ballast::partition(lengths, one_gpu_bags(1), quadratic_cost{1}, {},
                                       quadratic_with_tolerance{1})
                        .value();
  EXPECT_THAT(plan.loads, ElementsAre(8 * most));
}

TEST(QuadraticWithTolerance, AllocatesNothingInTheSteadyState)
{
  ballast_test::expect_the_same_again_without_allocation(
      quadratic_with_tolerance{}, 1000, quadratic_cost{1},
      ballast_test::consecutive_bags({1, 1, 2, 2, 4}));
}

static_assert(ballast::partition_policy<karmarkar_karp>);

TEST(KarmarkarKarp, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  ballast_test::expect_valid_plans(karmarkar_karp{}, 41);
  ballast_test::expect_starting_loads_counted(karmarkar_karp{});
}

TEST(KarmarkarKarp, StaysWithinItsWorstCase)  // Ensures (3)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 600; ++trial) {
    auto step = ballast_test::random_instance(random, 8, 4, 1);
    step.gpu_speeds.clear();
    SCOPED_TRACE(testing::Message() << "trial " << trial << " bags " << step.gpus.size());
    auto const plan = ballast_test::plan_instance(step, karmarkar_karp{});
    ASSERT_TRUE(plan);
    auto const bags = static_cast<std::int64_t>(step.gpus.size());
    ratio const best = *ballast_test::optimum(step);
    EXPECT_LE(3 * bags * plan->makespan.numerator, (4 * bags - 1) * best.numerator);
    if (bags == 2) { EXPECT_LE(6 * plan->makespan.numerator, 7 * best.numerator); }
  }
}

TEST(KarmarkarKarp, MeetsItsWorstCaseOfTwoBags)
{
  // Best is 3 and 3 against 2, 2 and 2; differencing keeps the first two apart.
  ballast_test::instance const step{{1, 1, 1, 1, 1}, {3, 3, 2, 2, 2}, {1, 1}};
  auto const plan = ballast_test::plan_instance(step, karmarkar_karp{}).value();
  EXPECT_EQ(plan.makespan, (ratio{7, 1}));
  EXPECT_EQ(*ballast_test::optimum(step), (ratio{6, 1}));
}

TEST(KarmarkarKarp, IsFarCloserToTheOptimumThanGreedyIs)
{
  ballast::random_source random(3);
  ballast_test::instance step;
  step.gpus.assign(16, 1);
  for (int sample = 0; sample < 400; ++sample) {
    step.lengths.push_back(1);
    step.costs.push_back(random.between(1, 1'000'000));
  }
  auto const differenced = ballast_test::plan_instance(step, karmarkar_karp{});
  auto const greedy = ballast_test::plan_instance(step, ballast::longest_processing_time{});
  ASSERT_TRUE(differenced && greedy);
  EXPECT_LT(10 * differenced->gap(), greedy->gap());
}

TEST(KarmarkarKarp, FillsUpWhatStartsUneven)
{
  std::vector<ballast::cost_units> const costs{30, 20, 10};
  std::vector<ballast::tokens> const lengths{1, 1, 1};
  std::vector<ballast::priced_sample> const order{
      {30, ballast::sample_id{0}}, {20, ballast::sample_id{1}}, {10, ballast::sample_id{2}}};
  std::vector<std::uint32_t> const ones{1, 1, 1, 1};
  std::vector<ballast::cost_units> loads{20, 30, 0, 10};
  std::vector<bag_id> owner(3, bag_id{4});
  ballast::workspace memory;
  karmarkar_karp{}({costs, lengths, order, ones, ones}, loads, owner, memory);
  EXPECT_EQ(loads, (std::vector<ballast::cost_units>{30, 30, 30, 30}));
  EXPECT_EQ(owner, (std::vector{bag_id{2}, bag_id{3}, bag_id{0}}));
}

RC_GTEST_PROP(KarmarkarKarp, IsGreedyWithSeveralKindsOfBags, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  auto step = ballast_test::random_instance(random, 30, 6, 4);
  step.gpus.push_back(step.gpus.front() + 1);
  if (!step.gpu_speeds.empty()) { step.gpu_speeds.push_back(1); }
  auto const plan = ballast_test::plan_instance(step, karmarkar_karp{});
  auto const greedy = ballast_test::plan_instance(step, ballast::longest_processing_time{});
  RC_ASSERT(plan.value().owner == greedy.value().owner);
}

TEST(KarmarkarKarp, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  ballast_test::instance const step{{9, 9}, {most / 2, most / 2}, {1, 1, 1}};
  auto const plan = ballast_test::plan_instance(step, karmarkar_karp{}).value();
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(KarmarkarKarp, PlansTheSameAgainAndAllocatesNothing)
{
  ballast_test::expect_the_same_again_without_allocation(karmarkar_karp{}, 2000);
}

}  // namespace
