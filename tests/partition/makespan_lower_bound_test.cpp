#include <ballast/partition/makespan_lower_bound.hpp>  // first: proves it is self-contained

#include "../support/policy_checks.hpp"
#include "../support/test.hpp"

#include <ballast/partition/round_robin.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

ratio makespan_bound_of(instance const& step)
{
  return plan_instance(step, round_robin{}).value().lower_bound;
}

TEST(MakespanLowerBound, IsNeverAboveTheOptimum)  // Ensures (1)
{
  for (cost_units const most_before : {0, 500}) {
    auto const found =
        compare_with_all_plans(round_robin{}, 11, 1500, [&](random_source& random, int trial) {
          auto step = random_instance(random, 7, 4, trial % 2 == 0 ? 1 : 6);
          step.before = random_loads(random, step, most_before);
          return step;
        });
    // A bound of zero would be below the optimum too; this one meets it more often than not.
    EXPECT_GT(found.tight, most_before == 0 ? 700 : 1000);
  }
  auto const nearly_equal = [](random_source& random, int trial) {
    auto step = near_equal_step(random, 2 + random.below(7), 2 + random.below(2));
    if (trial % 2 == 0) {
      step.gpus[0] = 2 + static_cast<std::uint32_t>(random.below(2));
      step.lengths.assign(step.lengths.size(), 8);
    }
    return step;
  };
  (void)compare_with_all_plans(round_robin{}, 15, 300, nearly_equal);
  // Costs of two and three kinds; loads are sums of these.
  auto const of_few_kinds = [](random_source& random, int trial) {
    std::vector<cost_units> kinds(2 + random.below(2));
    for (auto& cost : kinds) { cost = random.between(50, 400); }
    instance step;
    step.gpus.assign(1 + random.below(3), trial % 2 == 0 ? 1 : 2);
    for (std::uint64_t each = 0; each < 4 + random.below(5); ++each) {
      step.costs.push_back(kinds[random.below(kinds.size())]);
    }
    step.lengths.assign(step.costs.size(), 8);
    return step;
  };
  EXPECT_GT(compare_with_all_plans(round_robin{}, 16, 300, of_few_kinds).tight, 300 * 4 / 5);
  // Two kinds of up to a quarter of noise, on bags of several sizes.
  auto const of_two_kinds = [](random_source& random, int trial) {
    instance step;
    step.gpus.assign(2 + random.below(2), 1);
    if (trial % 3 > 0) { step.gpus[0] = 2 + static_cast<std::uint32_t>(random.below(2)); }
    for (std::uint64_t each = 0; each < 3 + random.below(6); ++each) {
      cost_units const kind = random.below(2) == 0 ? 1000 : 2200;
      step.costs.push_back(random.between(kind, trial % 2 == 0 ? kind * 5 / 4 : kind + 10));
    }
    step.lengths.assign(step.costs.size(), 8);
    return step;
  };
  auto const found = compare_with_all_plans(round_robin{}, 17, 600, of_two_kinds);
  EXPECT_LT(600 - found.bounds, 600 * 0.01);
}

// The same as (d), one bound after the other.
ratio fullest_bags_by_trying(instance const& step)
{
  std::vector<cost_units> costs = step.costs;
  std::ranges::sort(costs, std::greater{});
  std::vector<std::uint32_t> speeds;
  for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) { speeds.push_back(step.speed_of(bag)); }
  std::ranges::sort(speeds, std::greater{});
  ratio bound;
  for (std::size_t taken = 1; taken <= costs.size(); ++taken) {
    std::size_t const most = (taken - 1) / speeds.size();
    std::size_t const fullest = taken - most * speeds.size();
    cost_units work = 0;
    std::int64_t speed = 0;
    for (std::size_t place = taken - fullest * (most + 1); place < taken; ++place) {
      work += costs[place];
    }
    for (std::size_t bag = 0; bag < fullest; ++bag) { speed += speeds[bag]; }
    bound = std::max(bound, ratio{work, speed});
  }
  return bound;
}

TEST(MakespanLowerBound, CountsTheSamplesOfTheFullestBags)
{
  random_source random(14);
  int above_the_mean = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::size_t const bags = 1 + random.below(9);
    auto step = near_equal_step(random, bags * (1 + random.below(30)) + random.below(bags), bags);
    if (trial % 2 == 0) {
      for (auto& gpus : step.gpus) { gpus = static_cast<std::uint32_t>(1 + random.below(3)); }
      step.lengths.assign(step.lengths.size(), 64);
    }
    ratio const bound = makespan_bound_of(step);
    ratio const counted = fullest_bags_by_trying(step);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ASSERT_LE(counted, bound);
    std::int64_t speed = 0;
    for (std::size_t bag = 0; bag < bags; ++bag) { speed += step.speed_of(bag); }
    ratio const mean{std::accumulate(step.costs.begin(), step.costs.end(), std::int64_t{0}), speed};
    above_the_mean += counted > mean ? 1 : 0;
  }
  EXPECT_GT(above_the_mean, 30);
}

TEST(MakespanLowerBound, KnowsEachOfItsParts)
{
  // (a) the mean, rounded up to whole units per bag of one size
  EXPECT_EQ(makespan_bound_of({{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1}}), (ratio{2, 1}));
  EXPECT_EQ(makespan_bound_of({{9, 9, 9}, {4, 4, 4}, {1, 2}}), (ratio{4, 1}));
  // (a) two short samples confined to the one bag of one GPU
  EXPECT_EQ(makespan_bound_of({{1, 1, 9}, {6, 6, 1}, {1, 8}}), (ratio{12, 1}));
  // (a) (b) the heaviest sample on the largest bag that it fits
  EXPECT_EQ(makespan_bound_of({{9, 9}, {60, 1}, {1, 2}}), (ratio{30, 1}));
  EXPECT_EQ(makespan_bound_of({{1, 9, 9}, {60, 1, 1}, {1, 2}}), (ratio{60, 1}));
  // (c) two samples of 10 against bags of 1 and 9 GPUs: the mean is 20/10, and before 20/9 the
  //     large
  // one has room for one of them, the small one for none
  EXPECT_EQ(makespan_bound_of({{9, 9}, {10, 10}, {1, 9}}), (ratio{20, 9}));
  // (a) speed counts as GPUs do: 30 units over speeds 1 and 2; (b) and one sample on the faster bag
  EXPECT_EQ(makespan_bound_of({{1, 1, 1}, {10, 10, 10}, {1, 1}, {1, 2}}), (ratio{10, 1}));
  EXPECT_EQ(makespan_bound_of({{1, 1}, {60, 1}, {1, 1}, {1, 2}}), (ratio{30, 1}));
  // (a) a short sample on the faster of the two bags that it fits, and on the slow bag it is left
  EXPECT_EQ(makespan_bound_of({{1, 9}, {60, 1}, {1, 1, 8}, {2, 3, 9}}), (ratio{20, 1}));
  EXPECT_EQ(makespan_bound_of({{1, 9}, {60, 1}, {1, 8}, {1, 9}}), (ratio{60, 1}));
  // (c) three units of work on speeds 2 and 3: in 3/5 they do one whole unit each, in 2/3 three
  EXPECT_EQ(makespan_bound_of({{1, 1, 1}, {1, 1, 1}, {1, 1}, {2, 3}}), (ratio{2, 3}));
  // (d) four samples of 5 in three bags: some bag has two
  EXPECT_EQ(makespan_bound_of({{1, 1, 1, 1}, {5, 5, 5, 5}, {1, 1, 1}}), (ratio{10, 1}));
  // (d) with q = 2: seven samples of 5 in three bags
  EXPECT_EQ(makespan_bound_of({{1, 1, 1, 1, 1, 1, 1}, {5, 5, 5, 5, 5, 5, 5}, {1, 1, 1}}),
            (ratio{15, 1}));
  // (d) with r = 2: of five samples in three bags, the two fullest hold four, at least 5, 6, 6 and
  // 8, and half of that is 13, the optimum; the mean is 11, and two of the four heaviest are 12
  EXPECT_EQ(makespan_bound_of({{1, 1, 1, 1, 1}, {8, 8, 6, 6, 5}, {1, 1, 1}}), (ratio{13, 1}));
  // (e) beside 70 there is no room for 34 in 101, and of the five in the other two bags three share
  // one; of all six the pigeonhole knows only that two share a bag
  EXPECT_EQ(makespan_bound_of({{1, 1, 1, 1, 1, 1}, {70, 34, 34, 34, 34, 34}, {1, 1, 1}}),
            (ratio{102, 1}));
}

TEST(MakespanLowerBound, CountsWhatBagsHoldFromTheStart)
{
  // What a bag holds alone, and the mean of all
  EXPECT_EQ(makespan_bound_of({{1}, {2}, {1, 1}, {}, {9, 1}}), (ratio{9, 1}));
  EXPECT_EQ(makespan_bound_of({{1, 1, 1}, {2, 2, 2}, {1, 1}, {}, {5, 2}}), (ratio{7, 1}));
  // (b) one sample on the least loaded bag; (d) two of three in one of two bags
  EXPECT_EQ(makespan_bound_of({{1}, {7}, {1, 1}, {}, {3, 3}}), (ratio{10, 1}));
  EXPECT_EQ(makespan_bound_of({{1, 1, 1}, {4, 4, 4}, {1, 1}, {}, {1, 3}}), (ratio{9, 1}));
  // Confined to a bag that is not empty
  EXPECT_EQ(makespan_bound_of({{1}, {6}, {1, 8}, {}, {5, 0}}), (ratio{11, 1}));
}

TEST(MakespanLowerBound, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_EQ(makespan_bound_of({{1, 1}, {most - 1, 1}, {1, 1}}), (ratio{most - 1, 1}));
  EXPECT_EQ(makespan_bound_of({{1, 1, 1}, {most / 3, most / 3, most / 3}, {1, 1}}),
            (ratio{most / 3 * 2, 1}));
  ratio const two_speeds = makespan_bound_of({{9, 9}, {most / 2, most / 2}, {8, 3}});
  EXPECT_GE(two_speeds, (ratio{most / 2 * 2, 11}));
  EXPECT_LE(two_speeds, (ratio{most / 2 * 2, 8}));  // the optimum: both in the faster bag
}

TEST(MakespanLowerBoundDeathTest, RefusesMismatchedStartingLoads)
{
  direct_problem const two_bags({{1}, {1}, {1, 1}});
  workspace memory;
  std::vector<cost_units> const one{1};
  EXPECT_DEATH((void)makespan_lower_bound(two_bags.view(), memory, one),
               "starting loads of 1 bag for a problem of 2");
}

TEST(MakespanLowerBound, IsZeroWithoutWork)
{
  EXPECT_EQ(makespan_bound_of({{}, {}, {1, 2}}), (ratio{0, 1}));
  EXPECT_EQ(makespan_bound_of({{0, 5}, {0, 0}, {1, 2}}), (ratio{0, 1}));
}

TEST(WithLowerBound, ComputesTheBoundOnlyWhereTheProblemHasNone)
{
  direct_problem const given({{1, 1}, {6, 2}, {1, 1}});
  workspace memory;
  auto const computed = with_lower_bound(given.view(), std::vector<cost_units>{0, 6}, memory);
  EXPECT_EQ(computed.lower_bound, (ratio{7, 1}));
  EXPECT_EQ(computed.costs.data(), given.step.costs.data());
  partition_problem known = given.view();
  known.lower_bound = {3, 1};
  EXPECT_EQ(with_lower_bound(known, {}, memory).lower_bound, (ratio{3, 1}));
}

}  // namespace
