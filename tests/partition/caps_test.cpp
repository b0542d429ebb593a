// SPDX-License-Identifier: Apache-2.0
// What bags hold at most, through the front door.

#include "../support/plain_swaps.hpp"
#include "../support/plan_checks.hpp"
#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>

namespace caps_test {

using namespace ballast;
using namespace ballast_test;

longest_processing_time const greedy;

result<partition_plan> plan_within(std::vector<tokens> const& lengths, std::size_t bags,
                                   std::int64_t most, std::vector<std::int64_t> const& weights = {},
                                   ballast::counts samples = {})
{
  return partition(lengths, one_gpu_bags(bags), quadratic_work,
                   {.also = {{.of = weights, .most_per_gpu = most}}, .samples = samples}, greedy);
}

TEST(Caps, HoldNoMoreThanMemoryDoes)
{
  // A few long samples cost as much as many short ones, which hold more tokens.
  std::vector<ballast::tokens> const lengths{8000, 8000, 3000, 3000, 3000, 3000,
                                             3000, 3000, 3000, 3000, 2000, 2000};
  auto const cost = [](ballast::tokens length) { return length * length; };
  auto const plan =
      ballast::partition(lengths, ballast::one_gpu_bags(3), cost, {.most_per_gpu = 15'000});
  ASSERT_TRUE(plan) << plan.error().message;
  std::vector<tokens> held(3, 0);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    held[to_index(plan->owner[sample])] += lengths[sample];
  }
  EXPECT_LE(std::ranges::max(held), 15'000);
  // Heaviest first alone overruns, and is mended.
  EXPECT_TRUE(partition(lengths, one_gpu_bags(3), cost, {.most_per_gpu = 15'000}, greedy));
}

TEST(Caps, FindFillingsThatLeaveNoRoomAtAll)
{
  // Ten bags were filled to the last token and then mixed up.
  random_source random(84);
  for (int trial = 0; trial < trials_of(20); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<tokens> lengths;
    for (int bag = 0; bag < 10; ++bag) {
      tokens left = 8192;
      for (int sample = 0; sample < 7; ++sample) {
        lengths.push_back(random.between(left / 12, left / 4));
        left -= lengths.back();
      }
      lengths.push_back(left);
    }
    random.shuffle(std::span(lengths));
    auto const plan = plan_within(lengths, 10, 8192);
    EXPECT_TRUE(plan) << plan.error().message;
  }
}

TEST(Caps, HoldWithEqualCounts)
{
  // Equal counts put the long sample and a short one together, which is too much for one bag.
  std::vector<tokens> const four{9, 4, 4, 1};
  EXPECT_TRUE(plan_within(four, 2, 10, {}, counts::equal()));
  EXPECT_FALSE(plan_within(four, 2, 9, {}, counts::equal()));
}

TEST(Caps, AreNotAbovePlainLocalSearch)
{
  random_source random(88);
  int const trials = is_sanitized ? 12 : 120;
  int compared = 0;
  int better = 0;
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const bags = 2 + random.below(7);
    std::vector<tokens> lengths((4 + random.below(13)) * bags);
    std::vector<std::int64_t> weights;
    std::vector<cost_units> costs;
    for (tokens& length : lengths) {
      length = random.between(100, 4000);
      costs.push_back(quadratic_work(length));
      weights.push_back(trial % 3 == 0   ? length
                        : trial % 3 == 1 ? 4500 - length
                                         : random.between(1, 4000));
    }
    std::int64_t const total = std::reduce(weights.begin(), weights.end(), std::int64_t{0});
    std::int64_t const most =
        std::max(total / static_cast<std::int64_t>(bags) * (1000 + random.between(2, 100)) / 1000,
                 std::ranges::max(weights));
    auto const plan = plan_within(lengths, bags, most, weights);
    auto const plain = plain_swaps(costs, bags, weights, most);
    if (!plain) { continue; }
    ASSERT_TRUE(plan) << plan.error().message;
    ++compared;
    EXPECT_LE(plan->makespan, (ratio{*plain, 1}));
    better += plan->makespan < ratio{*plain, 1} ? 1 : 0;
  }
  EXPECT_GT(2 * compared, trials);
  EXPECT_GT(2 * better, compared);
}

TEST(Caps, EvenOutWorkThatDoesNotFollowFromWeight)
{
  random_source random(89);
  for (bool const light_costs_most : {false, true}) {
    instance step{std::vector<tokens>(2048, 1), {}, std::vector<std::uint32_t>(64, 1)};
    std::vector<std::int64_t> weights;
    for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
      weights.push_back(random.between(100, 4000));
      step.costs.push_back(light_costs_most
                               ? quadratic_work(4100 - weights.back() + random.between(0, 500))
                               : random.between(1, 100) * random.between(1, 100));
    }
    std::int64_t const total = std::reduce(weights.begin(), weights.end());
    placement_limits given{.also = {{.of = weights, .most_per_gpu = total / 64 * 1005 / 1000}}};
    EXPECT_LE(plan_instance(step, greedy, given)->gap(), 0.001);
    given.samples = counts::equal();
    EXPECT_LE(plan_instance(step, greedy, given)->gap(), 0.005);
  }
}

TEST(Caps, GiveFastBagsWhatIsExpensive)
{
  // Slow and fast bags hold as much, so the slow ones need the tokens of least work.
  random_source random(89);
  for (int trial = 0; trial < trials_of(10); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<tokens> lengths(512);
    for (tokens& length : lengths) { length = random.between(100, 4000); }
    tokens const total = std::reduce(lengths.begin(), lengths.end(), tokens{0});
    std::vector<std::uint32_t> const gpus(16, 1);
    std::vector<std::uint32_t> speeds(16);
    for (auto& speed : speeds) { speed = static_cast<std::uint32_t>(1 + random.below(4)); }
    auto const plan = partition(lengths, consecutive_bags(gpus, speeds), quadratic_work,
                                {.most_per_gpu = total / 16 * 102 / 100}, greedy);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LT(plan->gap(), 0.05);  // it was above 3 where slow bags got what is expensive
  }
}

TEST(Caps, CountStartingLoadsAsWorkButNotAsWeight)
{
  instance step{{10, 10, 10}, {5, 4, 3}, {1, 1}};
  step.before = {100, 1};
  EXPECT_EQ(plan_instance(step, greedy, {.most_per_gpu = 20})->loads,
            (std::vector<cost_units>{103, 10}));
}

TEST(Caps, SayWhatIsTooMuch)
{
  std::vector<tokens> const lengths(5, 6);
  auto const plan =
      partition(lengths, one_gpu_bags(2), quadratic_work, {.most_per_gpu = 10}, greedy);
  expect_refused(plan, error_code::infeasible, 0,
                 "all samples weigh 30 and 2 bags hold at most 10 each; 5 such bags are needed and "
                 "enough");
  expect_refused(plan_within({6, 11, 6}, 2, 10), error_code::infeasible, 1,
                 "sample 1 weighs 11, more than any bag that it fits holds, which is 10");
}

TEST(Caps, AllocateNothingInTheSteadyState)
{
  for (auto const samples : {counts{}, counts::equal()}) {
    expect_the_same_again_without_allocation(
        greedy, 600, quadratic_work, one_gpu_bags(16), [=](std::span<tokens const> lengths) {
          tokens const total = std::reduce(lengths.begin(), lengths.end());
          return placement_limits{.most_per_gpu = total / 16 + 20, .samples = samples};
        });
  }
  // Most samples are above a cap of 100.
  expect_the_same_again_without_allocation(
      greedy, 20, quadratic_work, one_gpu_bags(24), [](std::span<tokens const>) {
        return placement_limits{.also = {{.most_per_gpu = 100, .is_soft = true}}};
      });
}

TEST(Caps, AllocateNothingInAHarderStep)
{
  // The first step is done when it begins. Then two samples fill a bag, or three sizes nearly do.
  for (auto const then : {second_objective{}, most_level}) {
    partition_plan plan;
    workspace memory;
    random_source random(3);
    std::vector<tokens> lengths(64, 128);
    bag_layout const bags = one_gpu_bags(8);
    int step = 0;
    expect_steady_state([&] {
      bool const done = partition_into(plan, memory, lengths, bags, quadratic_work,
                                       {.most_per_gpu = step == 0 ? 2000 : 1100, .then = then})
                            .has_value();
      ++step;
      for (std::size_t sample = 0; sample < lengths.size(); sample += 2) {
        lengths[sample] = random.between(1, step == 1 ? 255 : 127);
        lengths[sample + 1] = 256 - lengths[sample];
      }
      return done;
    });
  }
}

// Long samples weigh next to nothing and heavy ones cost next to nothing, so that bags hold 8 to 28
// of them: one of four bags ended 50 % late while lists had room for two more samples each.
TEST(Caps, LetSomeBagsTakeManySamples)
{
  std::vector<std::int64_t> const costs{
      1135, 1844, 565,  15,   11,  528,  1979, 1891, 570, 16,   5,    10,   17,  853,  694,
      8,    1292, 847,  529,  9,   16,   527,  17,   18,  727,  610,  1782, 7,   783,  1954,
      1469, 12,   13,   1671, 19,  1847, 2,    1322, 2,   13,   1453, 13,   991, 1884, 827,
      6,    4,    1130, 1873, 598, 1016, 17,   1686, 784, 1234, 4,    843,  655};
  std::vector<std::int64_t> const weights{
      12,   7,    1,   1715, 635, 18,   2,    17,  18,   1315, 1150, 1630, 1662, 7, 20,
      1949, 8,    11,  1,    804, 1509, 1,    684, 1579, 15,   12,   19,   731,  3, 18,
      12,   1878, 659, 17,   577, 3,    1010, 11,  645,  1940, 13,   1964, 11,   1, 9,
      1727, 1226, 19,  13,   11,  5,    1697, 19,  11,   2,    606,  2,    12};
  auto const plan = partition(costs, one_gpu_bags(4), std::identity{}, no_length{},
                              {.also = {{.of = weights, .most_per_gpu = 7488}}});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->makespan, (ratio{10162, 1}));  // the mean, rounded up
}

// A sample that fills a bag alone lies in a fast one first, and no exchange of a sample or two gets
// it out.
TEST(Caps, LetBagsOfDifferentSpeedsChangePlaces)
{
  random_source random(3);
  std::vector<std::int64_t> costs(78);
  std::vector<std::int64_t> weights(78);
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    costs[sample] = random.between(100, 9'000);
    weights[sample] = random.between(50, 1'500);
  }
  costs[0] = 9'000;
  weights[0] = 38'000;
  std::vector<std::uint32_t> const speeds{82, 65, 88, 90};
  auto const plan = partition(costs, one_gpu_bags(4).with_speeds(speeds), std::identity{},
                              no_length{}, {.also = {{.of = weights, .most_per_gpu = 38'000}}});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(to_index(plan->owner[0]), 1U);  // the slowest
  EXPECT_EQ(plan->samples[to_id<bag_id>(1)].size(), 1U);
}

// Weights that are not the cost: light samples are long, or half of them cost nothing.
TEST(Caps, AreFilledByTheWeightWhereTheCostIsAnother)
{
  auto const makespan_of = [](std::vector<std::int64_t> const& costs,
                              std::vector<std::int64_t> const& weights, std::size_t bags,
                              std::int64_t cap) {
    std::vector<std::size_t> samples(costs.size());
    std::iota(samples.begin(), samples.end(), std::size_t{0});
    auto const plan = ballast::partition(
        samples, ballast::one_gpu_bags(bags), [&](std::size_t each) { return costs[each]; },
        [](std::size_t) { return ballast::tokens{1}; },
        {.also = {{.of = weights, .most_per_gpu = cap}}});
    return plan.value().makespan;
  };
  EXPECT_EQ(
      makespan_of(
          {19, 55, 0, 23, 0, 0, 0, 24, 0, 0, 29, 0, 0, 0, 51, 1, 0, 18, 10, 0, 0, 0, 0, 0, 4},
          {5, 10, 15, 3, 2, 12, 7, 20, 2, 11, 6, 17, 8, 18, 11, 8, 9, 5, 18, 13, 8, 1, 11, 13, 11},
          5, 50),
      (ballast::ratio{55, 1}));
  EXPECT_LE(
      makespan_of({46, 7, 6, 45, 40, 52, 6, 42, 9, 45, 6, 8, 56, 9, 9, 55, 10, 10, 46, 53, 46, 45},
                  {1, 12, 11, 3, 1, 1, 11, 3, 10, 3, 11, 12, 1, 12, 11, 3, 11, 10, 1, 1, 3, 3}, 3,
                  46),
      (ballast::ratio{218, 1}));
}

}  // namespace caps_test
