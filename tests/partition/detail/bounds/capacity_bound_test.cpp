#include <ballast/partition/detail/bounds/capacity_bound.hpp>  // first: proves it is self-contained

#include "../../../support/constrained_optimum.hpp"
#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace {

using ballast::ratio;

ratio capacity_bound_of(ballast_test::direct_problem const& given)
{
  ballast::workspace memory;
  return ballast::detail::capacity_bound(given.view(), memory);
}

TEST(CapacityBound, IsNeverAboveTheOptimum)  // Ensures (1)
{
  ballast::random_source random(111);
  int tight = 0;
  int steps = 0;
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 7, 4, trial % 2 == 0 ? 1 : 3);
    std::vector<std::int64_t> weights(step.costs.size());
    for (auto& weight : weights) { weight = random.between(0, 9); }
    std::vector<std::int64_t> capacities(step.gpus.size());
    for (auto& capacity : capacities) { capacity = random.between(0, 25); }
    auto const best = ballast_test::optimum_where(step, [&](std::vector<std::size_t> const& owner) {
      std::vector<std::int64_t> held(capacities.size(), 0);
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        held[owner[sample]] += weights[sample];
      }
      return std::ranges::equal(held, capacities, std::less_equal{});
    });
    ratio const bound = capacity_bound_of(ballast_test::direct_problem(step, weights, capacities));
    if (!best || best->numerator == 0) { continue; }
    ASSERT_LE(bound, *best);
    ++steps;
    tight += bound == *best ? 1 : 0;
  }
  EXPECT_GT(4 * tight, steps);  // a bound of zero would pass the line above
}

ratio capacity_bound_of(std::vector<ballast::cost_units> costs, std::vector<std::int64_t> weights,
                        std::vector<std::int64_t> capacities,
                        std::vector<std::uint32_t> speeds = {})
{
  std::vector<std::uint32_t> const gpus(capacities.size(), 1);
  std::vector<ballast::tokens> const lengths(costs.size(), 1);
  return capacity_bound_of(
      ballast_test::direct_problem({lengths, std::move(costs), gpus, std::move(speeds)},
                                   std::move(weights), std::move(capacities)));
}

TEST(CapacityBound, FillsTheBagOfTheHeaviestSampleAsFarAsItMust)
{
  // The other bag holds 10 of 16: 6 lie with the sample of 100, which weighs 4, and the 2 others
  // cost at least 1 each.
  EXPECT_EQ(capacity_bound_of({100, 12, 12, 2}, {4, 5, 5, 2}, {10, 10}), (ratio{102, 1}));
  // Where the other bag holds all but that sample, it is alone.
  EXPECT_EQ(capacity_bound_of({100, 12, 12, 2}, {4, 5, 5, 2}, {12, 12}), (ratio{100, 1}));
  // A part of a sample counts as its share, rounded up: 1 of 5 for 12.
  EXPECT_EQ(capacity_bound_of({100, 12, 12}, {4, 5, 5}, {9, 9}), (ratio{103, 1}));
}

TEST(CapacityBound, KnowsSpeeds)
{
  EXPECT_EQ(capacity_bound_of({100, 12, 12, 2}, {4, 5, 5, 2}, {10, 10}, {1, 2}), (ratio{51, 1}));
}

TEST(CapacityBound, FillsSlowBagsWithWhatFastOnesCannotHold)
{
  // The fast bag holds 10 of 20, so the slow one does at least the 10 that cost 20.
  EXPECT_EQ(capacity_bound_of({20, 40}, {10, 10}, {10, 10}, {1, 9}), (ratio{20, 1}));
  // Of bags of one speed, the larger ones are crowded: the others hold 4, so these hold 36 of 40.
  EXPECT_EQ(capacity_bound_of({10, 10, 10, 10}, {10, 10, 10, 10}, {36, 4}), (ratio{36, 1}));
}

TEST(CapacityBound, ManagesWithoutWeightsAndAtTheEndOfItsRange)
{
  EXPECT_EQ(capacity_bound_of({}, {}, {5}), ratio{});
  EXPECT_EQ(capacity_bound_of({3, 4}, {0, 0}, {0, 0}), (ratio{4, 1}));
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_EQ(capacity_bound_of({most / 2, most / 2}, {most / 2, most / 2}, {most, most}),
            (ratio{most / 2, 1}));
}

TEST(CapacityBoundDeathTest, RefusesWeightsOfOthers)
{
  EXPECT_DEATH((void)capacity_bound_of(ballast_test::direct_problem({{3}, {3}, {1}}, {3})),
               "there are no capacities");
}

}  // namespace
