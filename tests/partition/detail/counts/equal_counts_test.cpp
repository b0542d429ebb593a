#include <ballast/partition/detail/counts/equal_counts.hpp>  // first: proves it is self-contained

#include "../../../support/policy_checks.hpp"
#include "../../../support/seqlen_balancing.hpp"
#include "../../../support/steady_state.hpp"
#include "../../../support/test.hpp"

#include <ballast/partition/partition.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using testing::ElementsAre;

using ballast::detail::equal_counts;

std::vector<std::size_t> counts_of(partition_plan const& plan)
{
  std::vector<std::size_t> counts;
  for (auto const samples : plan.samples) { counts.push_back(samples.size()); }
  return counts;
}

// The counts of a step whose samples all cost 5.
std::vector<std::size_t> counts_in(std::vector<tokens> const& lengths,
                                   std::vector<std::uint32_t> const& gpus,
                                   std::uint32_t multiple = 1,
                                   std::vector<std::uint32_t> const& speeds = {},
                                   std::vector<cost_units> starts = {})
{
  instance step{lengths, std::vector<cost_units>(lengths.size(), 5), gpus, speeds};
  step.before = std::move(starts);
  auto const plan =
      plan_directly(direct_problem(step), equal_counts{.multiple = multiple, .work = 0});
  std::vector<std::size_t> counts(gpus.size(), 0);
  for (bag_id const bag : plan.owner) { ++counts.at(to_index(bag)); }
  return counts;
}

TEST(EqualCounts, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  expect_valid_plans(equal_counts{.work = 20'000}, 71);
  expect_valid_plans(equal_counts{.multiple = 4, .work = 20'000}, 72);
  expect_valid_plans(equal_counts{.work = 0}, 73);
  expect_starting_loads_counted(equal_counts{});
}

TEST(EqualCounts, GivesEveryBagAsManySamples)  // Ensures (3)
{
  // [equal_count]
  std::vector<ballast::tokens> const lengths{9000, 700, 600, 600, 500, 400, 300, 200};
  auto const cost = [](ballast::tokens length) { return length * length + 100 * length; };
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(4), cost,
                                       {.samples = ballast::counts::equal()});
  // [equal_count]
  ASSERT_TRUE(plan);
  EXPECT_THAT(counts_of(*plan), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(plan->owner[0], plan->owner[7]);  // the longest has the shortest as its companion
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(EqualCounts, SpreadsTheRestWhereCountsDoNotDivide)  // Ensures (3)
{
  auto const counts = [](std::size_t samples, std::size_t bags, std::uint32_t multiple) {
    return counts_in(std::vector<tokens>(samples, 5), std::vector<std::uint32_t>(bags, 1),
                     multiple);
  };
  EXPECT_THAT(counts(10, 2, 1), ElementsAre(5, 5));
  EXPECT_THAT(counts(10, 4, 1), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(counts(3, 5, 1), ElementsAre(1, 1, 1, 0, 0));
  EXPECT_THAT(counts(0, 3, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(counts(7, 1, 1), ElementsAre(7));
  EXPECT_THAT(counts(10, 2, 2), ElementsAre(6, 4));
  EXPECT_THAT(counts(10, 2, 4), ElementsAre(6, 4));
  EXPECT_THAT(counts(10, 3, 4), ElementsAre(4, 4, 2));
  EXPECT_THAT(counts(10, 2, 20), ElementsAre(10, 0));
  EXPECT_THAT(counts(10, 2, std::numeric_limits<std::uint32_t>::max()), ElementsAre(10, 0));
  EXPECT_THAT(counts(24, 3, 8), ElementsAre(8, 8, 8));
  EXPECT_THAT(counts(24, 4, 8), ElementsAre(8, 8, 8, 0));
  EXPECT_THAT(counts(27, 3, 8), ElementsAre(11, 8, 8));
  EXPECT_THAT(counts(5, 2, 8), ElementsAre(5, 0));
}

TEST(EqualCounts, GivesMoreToFasterThenToLessLoadedBags)
{
  std::vector<tokens> const ten(10, 100);
  EXPECT_THAT(counts_in(ten, {1, 1, 1}, 1, {1, 1, 2}), ElementsAre(3, 3, 4));
  EXPECT_THAT(counts_in(ten, {1, 1, 1}, 1, {}, {5, 0, 5}), ElementsAre(3, 4, 3));
  EXPECT_THAT(counts_in({99, 98, 99, 98}, {8, 1, 4}), ElementsAre(2, 1, 1));
  EXPECT_THAT(counts_in(ten, {2, 8, 4, 1}), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(counts_in(ten, {8, 1, 1}, 1, {1, 9, 1}), ElementsAre(3, 4, 3));
  EXPECT_THAT(counts_in(ten, {4, 1, 1}, 3), ElementsAre(4, 3, 3));
  // The fastest may have two, of which too few are long enough for the next.
  EXPECT_THAT(counts_in({9, 9, 9, 2, 2, 1, 1, 1}, {8, 4, 1}), ElementsAre(2, 1, 5));
}

TEST(EqualCounts, GivesLargeBagsWhatFitsThem)
{
  // Only two samples have the four tokens that the first bag needs.
  EXPECT_THAT(counts_in({1, 1, 9, 1, 9, 1, 1, 1}, {4, 1}), ElementsAre(2, 6));
  // Eight GPUs: one sample; of the other eleven the rest share evenly.
  EXPECT_THAT(counts_in({8, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1, 1}, {8, 4, 1}), ElementsAre(1, 5, 6));
  EXPECT_THAT(counts_in({8, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {8, 4, 1}), ElementsAre(2, 2, 8));
  // A sample without tokens fits the largest bag.
  EXPECT_THAT(counts_in({0, 0, 1, 1}, {8, 1}), ElementsAre(2, 2));
  // Three pairs and one: the larger bag gets two pairs, the other one a pair and the rest.
  EXPECT_THAT(counts_in(std::vector<tokens>(7, 9), {4, 1}, 2), ElementsAre(4, 3));
  EXPECT_THAT(counts_in({9, 9, 1, 1, 1, 1, 1}, {4, 1}, 2), ElementsAre(2, 5));
}

// Whether some assignment has these counts: what a bag takes, a smaller one takes too, so it is
// enough that for every size the bags of that size and larger ones find samples.
bool possible(std::vector<tokens> const& lengths, std::vector<std::uint32_t> const& gpus,
              std::vector<std::size_t> const& asked)
{
  return std::ranges::all_of(gpus, [&](std::uint32_t size) {
    std::size_t places = 0;
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      places += gpus[bag] >= size ? asked[bag] : 0;
    }
    return places <= static_cast<std::size_t>(std::ranges::count_if(lengths, [size](tokens length) {
             return length == 0 || length >= static_cast<tokens>(size);
           }));
  });
}

std::size_t sum_of_squares(std::vector<std::size_t> const& of)
{
  return std::inner_product(of.begin(), of.end(), of.begin(), std::size_t{0});
}

TEST(EqualCounts, HasTheMostEvenCountsThatAPlanCanHave)  // Ensures (3)
{
  random_source random(31);
  for (int trial = 0; trial < trials_of(300); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_instance(random, 12, 4, 6);
    std::size_t const samples = step.lengths.size();
    // To each bag its count.
    auto const most_even =
        least_of_all(step.gpus.size(), samples + 1, [&](assignment const& counts) {
          std::size_t const placed = std::reduce(counts.begin(), counts.end());
          bool const complete = counts.size() == step.gpus.size();
          bool const may_be =
              placed <= samples &&
              (!complete || (placed == samples && possible(step.lengths, step.gpus, counts)));
          return may_be ? std::optional(sum_of_squares(counts)) : std::nullopt;
        });
    auto const found = counts_in(step.lengths, step.gpus);
    ASSERT_TRUE(possible(step.lengths, step.gpus, found));
    EXPECT_EQ(sum_of_squares(found), most_even);
  }
}

TEST(EqualCounts, HasMultiplesButOneCountThatHasTheRest)  // Ensures (3)
{
  random_source random(32);
  for (int trial = 0; trial < trials_of(1500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_instance(random, 60, 9, 8);
    auto const multiple = static_cast<std::uint32_t>(1 + random.below(9));
    auto const found = counts_in(step.lengths, step.gpus, multiple);
    ASSERT_TRUE(possible(step.lengths, step.gpus, found));
    EXPECT_LE(std::ranges::count_if(found, [&](auto count) { return count % multiple != 0; }), 1);
    bool const all_fit =
        possible(step.lengths, {std::ranges::max(step.gpus)}, {step.lengths.size()});
    for (std::size_t a = 0; a < found.size(); ++a) {
      for (std::size_t b = 0; b < found.size(); ++b) {
        if (all_fit || step.gpus[a] == step.gpus[b]) {
          EXPECT_LE(found[a], found[b] + multiple) << "bags " << a << " and " << b;
        }
        if (all_fit && step.gpus[a] > step.gpus[b]) { EXPECT_GE(found[a], found[b]); }
      }
    }
  }
}

TEST(EqualCounts, CountsSamplesOfSeveralGpusAlike)  // Ensures (3) (4)
{
  // Twice as fast and twice as large, but as many samples.
  auto const plan = plan_instance({{9, 9, 9, 9}, {40, 30, 20, 10}, {1, 2}}, equal_counts{}).value();
  EXPECT_THAT(counts_of(plan), ElementsAre(2, 2));
  EXPECT_THAT(plan.loads, ElementsAre(30, 70));
  // One sample alone is long enough for the bag of four GPUs.
  auto const few = plan_instance({{9, 1, 1, 1}, {40, 30, 20, 10}, {1, 4}}, equal_counts{}).value();
  EXPECT_THAT(counts_of(few), ElementsAre(3, 1));
}

TEST(EqualCounts, IsBetweenItsBoundAndTheOptimumAndMostlyFindsIt)  // Ensures (4)
{
  random_source random(74);
  int optimal = 0;
  int proven = 0;
  constexpr int trials = trials_of(600);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_instance(random, 8, 4, trial % 2 == 0 ? 1 : 4);
    auto const multiple = static_cast<std::uint32_t>(1 + random.below(2));
    auto const plan = plan_instance(step, equal_counts{.multiple = multiple});
    ASSERT_TRUE(plan);
    auto counts = counts_of(*plan);
    ASSERT_EQ(counts, counts_in(step.lengths, step.gpus, multiple, step.gpu_speeds));
    std::ranges::sort(counts);
    auto const best = optimum_where(step, [&](assignment const& owner) {
      auto held = sums_of(owner, std::vector<std::size_t>(owner.size(), 1),
                          std::vector<std::size_t>(step.gpus.size(), 0));
      std::ranges::sort(held);
      return owner.size() < step.costs.size() ? held.back() <= counts.back() : held == counts;
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
  random_source random(seed);
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) {
    int shift = 0;
    for (int coin = 0; coin < 9; ++coin) { shift += static_cast<int>(random.below(2)); }
    length = (random.between(64, 128) << shift) / 8;
  }
  return lengths;
}

TEST(EqualCounts, ComesWithinOneTenThousandthWhereDifferencingDoesNot)
{
  for (std::size_t const samples : {1024U, 4096U}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE(testing::Message() << samples << " samples, seed " << seed);
      auto const lengths = long_tailed(samples, seed);
      auto const plan =
          partition(lengths, one_gpu_bags(64), quadratic_work, {}, equal_counts{}).value();
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

TEST(EqualCounts, GivesTheFastestBagTheSampleThatIsOver)
{
  instance const step{{1000, 1000, 1000, 1000}, {99, 98, 99, 98}, {8, 1, 4}};
  auto const plan = plan_instance(step, equal_counts{}).value();
  EXPECT_EQ(plan.samples[bag_id{0}].size(), 2U);
  EXPECT_EQ(plan.makespan, (ratio{98, 1}));
}

TEST(EqualCounts, LeavesPlansThatNoSingleSwapMakesShorter)
{
  std::vector<tokens> const lengths{30, 4, 25, 5, 16, 3, 7, 17};
  auto const plan =
      partition(lengths, one_gpu_bags(3), std::identity{}, {}, equal_counts{.multiple = 2});
  EXPECT_EQ(plan.value().makespan, (ratio{37, 1}));
}

TEST(EqualCounts, CountsWhatStaysTogetherAsOne)
{
  // [together]
  // Two answers to each of four prompts; every bag gets two prompts.
  std::vector<ballast::tokens> const lengths{900, 100, 400, 500, 300, 300, 200, 700};
  std::vector<std::int64_t> const prompts{11, 11, 12, 12, 13, 13, 14, 14};
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2),
                                       [](ballast::tokens length) { return length; },
                                       {.together = prompts, .samples = ballast::counts::equal()});
  // [together]
  ASSERT_TRUE(plan);
  EXPECT_THAT(counts_of(*plan), ElementsAre(4, 4));
  for (std::size_t sample = 0; sample < 8; sample += 2) {
    EXPECT_EQ(plan->owner[sample], plan->owner[sample + 1]);
  }
}

TEST(EqualCounts, DoesNotCountSamplesOfUnequalGroups)
{
  std::vector<tokens> const lengths{10, 10, 10, 10};
  std::vector<std::int64_t> const keys{1, 1, 1, 2};
  auto const plan =
      partition(lengths, one_gpu_bags(2), quadratic_work, {.together = keys}, equal_counts{})
          .value();
  EXPECT_THAT(counts_of(plan), ElementsAre(3, 1));
}

TEST(EqualCounts, LooksAtNoMoreSamplesThanItMay)
{
  random_source random(75);
  std::vector<tokens> lengths(1024);
  for (tokens& length : lengths) { length = random.between(100, 9000); }
  auto const with = [&](std::uint64_t work) {
    return partition(lengths, one_gpu_bags(64), quadratic_work, {}, equal_counts{.work = work})
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

TEST(EqualCounts, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  auto const plan = plan_instance({{9, 9, 9, 9}, {most / 4, most / 4, most / 4, most / 4}, {8, 3}},
                                  equal_counts{})
                        .value();
  EXPECT_THAT(counts_of(plan), ElementsAre(2, 2));
}

// Giants in all bags: the latest can give weight only to the second, which alone can swap with the
// third.
TEST(EqualCounts, SharesTheLightestSamplesAmongGiants)
{
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    random_source random(seed);
    std::vector<tokens> lengths{9'960'000, 9'800'000, 9'606'000};
    for (int sample = 0; sample < 45; ++sample) {
      lengths.push_back(random.between(14'000, 64'000));
    }
    auto const plan = partition(lengths, one_gpu_bags(3), std::identity{}, {}, equal_counts{});
    EXPECT_LT(plan->gap(), 1e-4) << "seed " << seed;
  }
}

TEST(EqualCounts, AllocatesNothingInTheSteadyState)
{
  expect_the_same_again_without_allocation(equal_counts{}, 1000);
}

TEST(EqualCounts, SaysWhatKeepsCountsWithinACap)
{
  // Too large to be tried whole, so that the search gives up.
  std::vector<tokens> lengths(40, 3);
  lengths.insert(lengths.end(), 8, 100);
  auto const why = [&](std::size_t bags, std::int64_t most) {
    return partition(lengths, one_gpu_bags(bags), std::identity{},
                     {.most_per_gpu = most, .samples = counts::equal()})
        .error()
        .message;
  };
  EXPECT_THAT(why(12, 100), testing::EndsWith("leave out limits.samples, without which there is a "
                                              "plan, or raise the limit"));
  EXPECT_THAT(why(9, 100),
              testing::EndsWith("add bags, raise the limit or plan fewer samples at once"));
}

}  // namespace
