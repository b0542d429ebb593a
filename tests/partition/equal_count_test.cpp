#include <ballast/partition/equal_count.hpp>  // first: proves it is self-contained

#include "../support/constrained_optimum.hpp"
#include "../support/direct_problem.hpp"
#include "../support/policy_checks.hpp"
#include "../support/quadratic_work.hpp"
#include "../support/seqlen_balancing.hpp"
#include "../support/steady_state.hpp"
#include "../support/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/partition/partition.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::equal_count;
using ballast::one_gpu_bags;
using ballast::ratio;
using ballast::tokens;
using ballast_test::quadratic_work;
using testing::ElementsAre;

static_assert(ballast::partition_policy<equal_count>);
static_assert(ballast::restricts_plans(equal_count{}));

std::vector<std::size_t> counts_of(ballast::partition_plan const& plan)
{
  std::vector<std::size_t> counts;
  for (auto const samples : plan.samples) { counts.push_back(samples.size()); }
  return counts;
}

TEST(EqualCount, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  ballast_test::expect_valid_plans(equal_count{.work = 20'000}, 71);
  ballast_test::expect_valid_plans(equal_count{.multiple = 4, .work = 20'000}, 72);
  ballast_test::expect_valid_plans(equal_count{.work = 0}, 73);
  ballast_test::expect_starting_loads_counted(equal_count{});
}

TEST(EqualCount, GivesEveryBagAsManySamples)  // Ensures (3)
{
  // [equal_count]
  std::vector<ballast::tokens> const lengths{9000, 700, 600, 600, 500, 400, 300, 200};
  auto const cost = [](ballast::tokens length) { return length * length + 100 * length; };
  auto const plan =
      ballast::partition(lengths, ballast::one_gpu_bags(4), ballast::equal_count{}, cost);
  // [equal_count]
  ASSERT_TRUE(plan);
  EXPECT_THAT(counts_of(*plan), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(plan->owner[0], plan->owner[7]);  // the longest has the shortest as its companion
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(EqualCount, SpreadsTheRestWhereCountsDoNotDivide)  // Ensures (3)
{
  auto const counts = [](std::size_t samples, std::size_t bags, std::uint32_t multiple) {
    auto const plan = ballast::partition(std::vector<tokens>(samples, 5), one_gpu_bags(bags),
                                         equal_count{.multiple = multiple}, quadratic_work);
    return counts_of(plan.value());
  };
  EXPECT_THAT(counts(10, 4, 1), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(counts(3, 5, 1), ElementsAre(1, 1, 1, 0, 0));
  EXPECT_THAT(counts(0, 3, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(counts(7, 1, 1), ElementsAre(7));
  EXPECT_THAT(counts(24, 3, 8), ElementsAre(8, 8, 8));
  EXPECT_THAT(counts(24, 4, 8), ElementsAre(8, 8, 8, 0));
  EXPECT_THAT(counts(27, 3, 8), ElementsAre(11, 8, 8));
  EXPECT_THAT(counts(5, 2, 8), ElementsAre(5, 0));
}

TEST(EqualCount, CountsSamplesOfSeveralGpusAlike)  // Ensures (3) (4)
{
  // Twice as fast and twice as large, but as many samples.
  auto const plan =
      ballast_test::plan_instance({{9, 9, 9, 9}, {40, 30, 20, 10}, {1, 2}}, equal_count{}).value();
  EXPECT_THAT(counts_of(plan), ElementsAre(2, 2));
  EXPECT_THAT(plan.loads, ElementsAre(30, 70));
  // One sample alone is long enough for the bag of four GPUs.
  auto const few =
      ballast_test::plan_instance({{9, 1, 1, 1}, {40, 30, 20, 10}, {1, 4}}, equal_count{}).value();
  EXPECT_THAT(counts_of(few), ElementsAre(3, 1));
}

std::vector<std::uint32_t> counts_for(ballast_test::direct_problem const& given,
                                      std::uint32_t multiple)
{
  std::vector<std::uint32_t> counts(given.step.gpus.size());
  std::vector<cost_units> const no_loads(counts.size(), 0);
  ballast::workspace memory;
  ballast::detail::balanced_counts_into(counts, given.view(), no_loads, multiple, memory);
  return counts;
}

TEST(EqualCount, IsBetweenItsBoundAndTheOptimumAndMostlyFindsIt)  // Ensures (4)
{
  ballast::random_source random(74);
  int optimal = 0;
  int proven = 0;
  constexpr int trials = ballast_test::trials_of(600);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 8, 4, trial % 2 == 0 ? 1 : 4);
    auto const multiple = static_cast<std::uint32_t>(1 + random.below(2));
    auto const plan = ballast_test::plan_instance(step, equal_count{.multiple = multiple});
    ASSERT_TRUE(plan);
    auto counts = counts_for(ballast_test::direct_problem(step), multiple);
    ASSERT_THAT(counts_of(*plan), testing::ElementsAreArray(counts));
    std::ranges::sort(counts);
    auto const best = ballast_test::optimum_where(step, [&](std::vector<std::size_t> const& owner) {
      std::vector<std::uint32_t> held(step.gpus.size(), 0);
      for (std::size_t const bag : owner) { ++held[bag]; }
      std::ranges::sort(held);
      return held == counts;
    });
    ASSERT_TRUE(best);
    ASSERT_GE(plan->makespan, *best);
    ASSERT_LE(plan->lower_bound, *best);
    optimal += plan->makespan == *best ? 1 : 0;
    proven += plan->proven_optimal() ? 1 : 0;
  }
  EXPECT_GE(optimal, trials * 19 / 20);
  EXPECT_GE(proven, trials / 2);
}

// Long-tailed lengths without the floating point of a lognormal: 2^(a sum of coins).
std::vector<tokens> long_tailed(std::size_t samples, std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) {
    int shift = 0;
    for (int coin = 0; coin < 9; ++coin) { shift += static_cast<int>(random.below(2)); }
    length = (random.between(64, 128) << shift) / 8;
  }
  return lengths;
}

TEST(EqualCount, ComesWithinOneTenThousandthWhereDifferencingDoesNot)
{
  for (std::size_t const samples : {1024U, 4096U}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE(testing::Message() << samples << " samples, seed " << seed);
      auto const lengths = long_tailed(samples, seed);
      auto const plan =
          ballast::partition(lengths, one_gpu_bags(64), equal_count{}, quadratic_work).value();
      EXPECT_THAT(counts_of(plan), testing::Each(samples / 64));
      EXPECT_LE(plan.gap(), 1e-4);
      auto const today = ballast_test::seqlen_balanced_partitions(plan.costs, 64, true);
      std::vector<cost_units> loads(64, 0);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        loads[to_index(today[sample])] += plan.costs[sample];
      }
      EXPECT_GT(std::ranges::max(loads), plan.makespan.numerator * 103 / 100);
    }
  }
}

TEST(EqualCount, GivesTheFastestBagTheSampleThatIsOver)
{
  ballast_test::instance const step{{1000, 1000, 1000, 1000}, {99, 98, 99, 98}, {8, 1, 4}};
  auto const plan = ballast_test::plan_instance(step, equal_count{}).value();
  EXPECT_EQ(plan.samples[bag_id{0}].size(), 2U);
  EXPECT_EQ(plan.makespan, (ballast::ratio{98, 1}));
}

TEST(EqualCount, LeavesPlansThatNoSingleSwapMakesShorter)
{
  std::vector<tokens> const lengths{30, 4, 25, 5, 16, 3, 7, 17};
  auto const plan =
      ballast::partition(lengths, one_gpu_bags(3), equal_count{.multiple = 2}, std::identity{});
  EXPECT_EQ(plan.value().makespan, (ratio{37, 1}));
}

TEST(EqualCount, CountsWhatStaysTogetherAsOne)
{
  // [together]
  // Two answers to each of four prompts; every bag gets two prompts.
  std::vector<ballast::tokens> const lengths{900, 100, 400, 500, 300, 300, 200, 700};
  std::vector<std::int64_t> const prompts{11, 11, 12, 12, 13, 13, 14, 14};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::equal_count{},
                                       [](ballast::tokens length) { return length; },
                                       std::identity{}, {.together = prompts});
  // [together]
  ASSERT_TRUE(plan);
  EXPECT_THAT(counts_of(*plan), ElementsAre(4, 4));
  for (std::size_t sample = 0; sample < 8; sample += 2) {
    EXPECT_EQ(plan->owner[sample], plan->owner[sample + 1]);
  }
}

TEST(EqualCount, DoesNotCountSamplesOfUnequalGroups)
{
  std::vector<tokens> const lengths{10, 10, 10, 10};
  std::vector<std::int64_t> const keys{1, 1, 1, 2};
  auto const plan = ballast::partition(lengths, one_gpu_bags(2), equal_count{}, quadratic_work,
                                       std::identity{}, {.together = keys})
                        .value();
  EXPECT_THAT(counts_of(plan), ElementsAre(3, 1));
}

TEST(EqualCount, LooksAtNoMoreSamplesThanItMay)
{
  ballast::random_source random(75);
  std::vector<tokens> lengths(1024);
  for (tokens& length : lengths) { length = random.between(100, 9000); }
  auto const with = [&](std::uint64_t work) {
    return ballast::partition(lengths, one_gpu_bags(64), equal_count{.work = work}, quadratic_work)
        .value();
  };
  ratio before = with(0).makespan;
  for (std::uint64_t const work : {1U, 1000U, 10'000U, 100'000U, 1'000'000U}) {
    ratio const now = with(work).makespan;
    EXPECT_LE(now, before) << "work " << work;
    before = now;
  }
  EXPECT_EQ(with(10'000).digest(), with(10'000).digest());
  EXPECT_LT(with(1'000'000).makespan, with(0).makespan);
}

RC_GTEST_PROP(EqualCountProperty, IsNeverBelowItsBound, ())
{
  auto const lengths = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(0, 5000));
  auto const bags = *rc::gen::inRange<std::size_t>(1, 12);
  auto const multiple = *rc::gen::inRange<std::uint32_t>(1, 5);
  auto const plan = ballast::partition(lengths, one_gpu_bags(bags),
                                       equal_count{.multiple = multiple}, quadratic_work);
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->lower_bound <= plan->makespan);
  auto const counts = counts_of(*plan);
  RC_ASSERT(std::ranges::max(counts) - std::ranges::min(counts) <= multiple);
  auto const again = ballast::partition(lengths, one_gpu_bags(bags),
                                        equal_count{.multiple = multiple}, quadratic_work);
  RC_ASSERT(again->digest() == plan->digest());
}

TEST(EqualCount, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  auto const plan =
      ballast_test::plan_instance({{9, 9, 9, 9}, {most / 4, most / 4, most / 4, most / 4}, {8, 3}},
                                  equal_count{})
          .value();
  EXPECT_THAT(counts_of(plan), ElementsAre(2, 2));
}

// Giants in all bags: the latest can give weight only to the second, which alone can swap with the
// third.
TEST(EqualCount, SharesTheLightestSamplesAmongGiants)
{
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    ballast::random_source random(seed);
    std::vector<tokens> lengths{9'960'000, 9'800'000, 9'606'000};
    for (int sample = 0; sample < 45; ++sample) {
      lengths.push_back(random.between(14'000, 64'000));
    }
    auto const plan = ballast::partition(lengths, one_gpu_bags(3), equal_count{}, std::identity{});
    EXPECT_LT(plan->gap(), 1e-4) << "seed " << seed;
  }
}

TEST(EqualCount, AllocatesNothingInTheSteadyState)
{
  ballast_test::expect_the_same_again_without_allocation(equal_count{}, 1000);
}

TEST(EqualCount, SaysWhatKeepsCountsWithinACap)
{
  auto const why = [](std::vector<ballast::tokens> const& lengths,
                      ballast::partition_constraints const& constraints) {
    return ballast::partition(lengths, ballast::one_gpu_bags(2), ballast::equal_count{},
                              std::identity{}, constraints)
        .error()
        .message;
  };
  EXPECT_THAT(why({9, 3, 3, 3}, {.most_per_gpu = 9}),
              testing::EndsWith("capped{equal_count{}} looks for a plan of these counts, by swaps "
                                "alone; without equal counts capped{longest_processing_time{}} "
                                "finds one"));
  EXPECT_THAT(why({6, 6, 6}, {.most_per_gpu = 10}),
              testing::EndsWith("add bags, raise the limit or plan fewer samples at once"));
  EXPECT_THAT(why({6, 6}, {.most_samples = 1}),
              testing::EndsWith("use refine{} or capped{}, which do, but keep no counts, or leave "
                                "it out"));
}

TEST(EqualCountDeathTest, RefusesMultiplesOfNothing)
{
  EXPECT_DEATH((void)ballast::partition(std::vector<tokens>{1}, one_gpu_bags(1),
                                        equal_count{.multiple = 0}, quadratic_work),
               "counts multiples of 0");
}

}  // namespace
