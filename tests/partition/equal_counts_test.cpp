// SPDX-License-Identifier: Apache-2.0
// As many samples in each bag, through the front door.

#include "../support/plan_checks.hpp"
#include "../support/policy_checks.hpp"
#include "../support/seqlen_balancing.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"

#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>

namespace equal_counts_test {

using namespace ballast;
using namespace ballast_test;
using testing::ElementsAre;

std::vector<std::size_t> counts_of(partition_plan const& plan)
{
  std::vector<std::size_t> counts;
  for (auto const samples : plan.samples) { counts.push_back(samples.size()); }
  return counts;
}

/// Whether counts differ by at most `multiple`, and all but one are multiples of it.
bool are_equal(std::vector<std::size_t> const& counts, std::size_t multiple)
{
  auto const odd =
      std::ranges::count_if(counts, [&](std::size_t each) { return each % multiple != 0; });
  return std::ranges::max(counts) - std::ranges::min(counts) <= multiple && odd <= 1;
}

result<partition_plan> plan_equal(std::vector<tokens> const& lengths, std::size_t bags,
                                  std::int64_t multiple = 1)
{
  return partition(lengths, one_gpu_bags(bags), std::identity{},
                   {.samples = counts::equal(multiple)});
}

TEST(EqualCounts, GiveEveryBagAsManySamples)
{
  std::vector<ballast::tokens> const lengths{9000, 700, 600, 600, 500, 400, 300, 200};
  auto const cost = [](ballast::tokens length) { return length * length + 100 * length; };
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(4), cost,
                                       {.samples = ballast::counts::equal()});
  ASSERT_TRUE(plan);
  EXPECT_THAT(counts_of(*plan), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(plan->owner[0], plan->owner[7]);  // the longest has the shortest as its companion
  EXPECT_TRUE(plan->proven_optimal());
  // Too many to try all plans: 13 of 36 samples are long, so that one of 12 bags has two of these, and
  // a third sample.
  std::vector<tokens> many(36, 1);
  std::fill_n(many.begin(), 13, 10);
  auto const thrice = plan_equal(many, 12);
  EXPECT_EQ(thrice->makespan, (ratio{21, 1}));
  EXPECT_TRUE(thrice->proven_optimal());
}

TEST(EqualCounts, SpreadTheRestWhereCountsDoNotDivide)
{
  auto const counts = [](std::size_t samples, std::size_t bags, std::int64_t multiple = 1) {
    auto found = counts_of(plan_equal(std::vector<tokens>(samples, 5), bags, multiple).value());
    std::ranges::sort(found, std::greater<>());
    return found;
  };
  EXPECT_THAT(counts(10, 2), ElementsAre(5, 5));
  EXPECT_THAT(counts(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(counts(3, 5), ElementsAre(1, 1, 1, 0, 0));
  EXPECT_THAT(counts(0, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(counts(7, 1), ElementsAre(7));
  EXPECT_THAT(counts(10, 2, 2), ElementsAre(6, 4));
  EXPECT_THAT(counts(10, 2, 4), ElementsAre(6, 4));
  EXPECT_THAT(counts(10, 3, 4), ElementsAre(4, 4, 2));
  EXPECT_THAT(counts(10, 2, 20), ElementsAre(10, 0));
  EXPECT_THAT(counts(10, 2, std::numeric_limits<std::int32_t>::max()), ElementsAre(10, 0));
  EXPECT_THAT(counts(24, 3, 8), ElementsAre(8, 8, 8));
  EXPECT_THAT(counts(24, 4, 8), ElementsAre(8, 8, 8, 0));
  EXPECT_THAT(counts(27, 3, 8), ElementsAre(11, 8, 8));
  EXPECT_THAT(counts(5, 2, 8), ElementsAre(5, 0));
}

TEST(EqualCounts, AreTheSameOfBagsOfAnySizeAndSpeed)
{
  placement_limits const equal{.samples = counts::equal()};
  // Twice as fast and twice as large, but as many samples.
  auto const plan = plan_instance({{9, 9, 9, 9}, {40, 30, 20, 10}, {1, 2}}, refine{}, equal);
  EXPECT_THAT(counts_of(*plan), ElementsAre(2, 2));
  EXPECT_THAT(plan->loads, ElementsAre(30, 70));
  // The fastest bag gets the sample that is over.
  instance const step{{1000, 1000, 1000, 1000}, {99, 98, 99, 98}, {8, 1, 4}};
  auto const over = plan_instance(step, refine{}, equal).value();
  EXPECT_EQ(over.samples[bag_id{0}].size(), 2U);
  EXPECT_EQ(over.makespan, (ratio{98, 1}));
  // Only one sample is long enough for the bag of four GPUs.
  EXPECT_FALSE(plan_instance({{9, 1, 1, 1}, {40, 30, 20, 10}, {1, 4}}, refine{}, equal));
}

TEST(EqualCounts, HoldInLargeStepsOfAnyMultiple)
{
  random_source random(32);
  for (int trial = 0; trial < trials_of(200) && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_instance(random, 60, 9, 1);
    std::size_t const multiple = 1 + random.below(9);
    auto const limit = counts::equal(static_cast<std::int64_t>(multiple));
    auto const plan = plan_instance(step, refine{}, {.samples = limit});
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_plan(step, *plan);
    EXPECT_TRUE(are_equal(counts_of(*plan), multiple));
  }
}

// Long-tailed lengths without the floating point of a lognormal: 2^(a sum of coins).
std::vector<tokens> long_tailed(std::size_t samples, std::uint64_t seed)
{
  random_source random(seed);
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) {
    int shift = 0;
    for (int coin = 0; coin < 9; ++coin) { shift += static_cast<int>(random.below(2)); }
    length = (random.between(64, 128) << shift) / 8;
  }
  return lengths;
}

TEST(EqualCounts, ComeWithinOneTenThousandthWhereDifferencingDoesNot)
{
  for (std::size_t const samples : {1024U, 4096U}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE(testing::Message() << samples << " samples, seed " << seed);
      auto const plan = partition(long_tailed(samples, seed), one_gpu_bags(64), quadratic_work,
                                  {.samples = counts::equal()})
                            .value();
      EXPECT_THAT(counts_of(plan), testing::Each(samples / 64));
      EXPECT_LE(plan.gap(), 1e-4);
      auto const today = seqlen_balanced_partitions(plan.costs, 64, true);
      std::vector<cost_units> loads(64, 0);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        loads[to_index(today[sample])] += plan.costs[sample];
      }
      EXPECT_GT(std::ranges::max(loads), plan.makespan.numerator * 103 / 100);
    }
  }
}

TEST(EqualCounts, GoBeyondSwapsOfSingleSamples)
{
  EXPECT_EQ(plan_equal({30, 4, 25, 5, 16, 3, 7, 17}, 3, 2)->makespan, (ratio{37, 1}));
  // Giants in all bags: the latest can give weight only to the second, which alone can swap with
  // the third.
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    random_source random(seed);
    std::vector<tokens> lengths{9'960'000, 9'800'000, 9'606'000};
    for (int sample = 0; sample < 45; ++sample) {
      lengths.push_back(random.between(14'000, 64'000));
    }
    EXPECT_LT(plan_equal(lengths, 3)->gap(), 1e-4) << "seed " << seed;
  }
}

TEST(EqualCounts, CountWhatStaysTogetherAsOne)
{
  // Two answers to each of four prompts; every bag gets two prompts.
  std::vector<ballast::tokens> const lengths{900, 100, 400, 500, 300, 300, 200, 700};
  std::vector<std::int64_t> const prompts{11, 11, 12, 12, 13, 13, 14, 14};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2),
                                       [](ballast::tokens length) { return length; },
                                       {.together = prompts, .samples = ballast::counts::equal()});
  ASSERT_TRUE(plan);
  EXPECT_THAT(counts_of(*plan), ElementsAre(4, 4));
  for (std::size_t sample = 0; sample < 8; sample += 2) {
    EXPECT_EQ(plan->owner[sample], plan->owner[sample + 1]);
  }
  // Groups of three and of one.
  std::vector<int> const keys{1, 1, 1, 2};
  auto const uneven = partition(std::vector<tokens>(4, 10), one_gpu_bags(2), std::identity{},
                                {.together = keys, .samples = counts::equal()});
  EXPECT_THAT(counts_of(*uneven), testing::UnorderedElementsAre(3, 1));
}

TEST(EqualCounts, WorkUpToTheLargestTotal)
{
  constexpr auto quarter = (std::numeric_limits<std::int64_t>::max() - 1) / 4;
  auto const plan = plan_instance({{9, 9, 9, 9}, {quarter, quarter, quarter, quarter}, {8, 3}},
                                  refine{}, {.samples = counts::equal()});
  EXPECT_THAT(counts_of(*plan), ElementsAre(2, 2));
}

TEST(EqualCounts, AllocateNothingInTheSteadyState)
{
  expect_the_same_again_without_allocation(
      refine{}, 1000, squared_length{}, one_gpu_bags(24),
      [](std::span<tokens const>) { return placement_limits{.samples = counts::equal()}; });
}

TEST(EqualCounts, AreRefusedWithTheCapThatTheyDoNotFit)
{
  // Eight of 100 and forty of 3: a bag of 100 has no room for a companion.
  std::vector<tokens> lengths(40, 3);
  lengths.insert(lengths.end(), 8, 100);
  placement_limits given{.most_per_gpu = 100, .samples = counts::equal()};
  expect_refused(partition(lengths, one_gpu_bags(12), std::identity{}, given),
                 error_code::infeasible, 0, "limits.most_per_gpu and limits.samples");
  given.samples = {};
  EXPECT_TRUE(partition(lengths, one_gpu_bags(12), std::identity{}, given));
}

}  // namespace equal_counts_test
