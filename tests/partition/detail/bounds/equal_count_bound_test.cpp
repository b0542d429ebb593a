#include <ballast/partition/equal_count.hpp>  // first: proves it is self-contained

#include "../../../support/constrained_optimum.hpp"
#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using ballast::ratio;

ratio equal_count_bound_of(ballast_test::instance const& step,
                           std::vector<std::uint32_t> const& counts)
{
  ballast_test::direct_problem const problem(step);
  ballast::workspace memory;
  return ballast::detail::equal_count_bound(problem.view(), counts, memory);
}

TEST(EqualCountBound, IsNeverAboveTheOptimum)  // Ensures (1)
{
  ballast::random_source random(41);
  int tight = 0;
  int steps_with_work = 0;
  for (int trial = 0; trial < ballast_test::trials_of(1500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 7, 4, trial % 2 == 0 ? 1 : 4);
    std::vector<std::uint32_t> counts(step.gpus.size(), 0);
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      ++counts[random.below(trial % 3 == 0 ? counts.size() : 1 + sample % counts.size())];
    }
    std::vector<std::uint32_t> const asked = [&] {
      auto sorted = counts;
      std::ranges::sort(sorted);
      return sorted;
    }();
    auto const best = ballast_test::optimum_where(step, [&](std::vector<std::size_t> const& owner) {
      std::vector<std::uint32_t> held(step.gpus.size(), 0);
      for (std::size_t const bag : owner) { ++held[bag]; }
      std::ranges::sort(held);
      return held == asked;
    });
    if (!best) { continue; }
    ratio const bound = equal_count_bound_of(step, counts);
    ASSERT_LE(bound, *best);
    if (best->numerator > 0) {
      ++steps_with_work;
      tight += bound == *best ? 1 : 0;
    }
  }
  EXPECT_GT(3 * tight, steps_with_work);  // a bound of zero would pass the line above
}

TEST(EqualCountBound, KnowsEachOfItsParts)
{
  // t = n: the mean, in whole units per bag of one speed
  EXPECT_EQ(equal_count_bound_of({{1, 1, 1, 1}, {1, 1, 1, 2}, {1, 1}}, {2, 2}), (ratio{3, 1}));
  // t = 1: the heaviest and its lightest companion
  EXPECT_EQ(equal_count_bound_of({{1, 1, 1, 1}, {90, 10, 10, 20}, {1, 1}}, {2, 2}),
            (ratio{100, 1}));
  // t = 2: the two heaviest in two bags of three, or one of them has both
  EXPECT_EQ(equal_count_bound_of({{1, 1, 1, 1, 1, 1}, {50, 50, 8, 8, 8, 8}, {1, 1, 1}}, {2, 2, 2}),
            (ratio{58, 1}));
  // t = 3 in two bags: two of 30 share one, whose third is a 1
  EXPECT_EQ(equal_count_bound_of({{1, 1, 1, 1, 1, 1}, {30, 30, 30, 1, 1, 1}, {1, 1}}, {3, 3}),
            (ratio{61, 1}));
  // A bag that is twice as fast as the other takes two thirds.
  EXPECT_EQ(equal_count_bound_of({{1, 1}, {20, 10}, {1, 1}, {1, 2}}, {1, 1}), (ratio{10, 1}));
  // The slow bag has a sample too, at best the lightest.
  EXPECT_EQ(equal_count_bound_of({{1, 1}, {20, 10}, {1, 1}, {1, 10}}, {1, 1}), (ratio{10, 1}));
  EXPECT_EQ(equal_count_bound_of({{1, 1, 1, 1}, {20, 9, 8, 7}, {1, 1}, {1, 10}}, {3, 1}),
            (ratio{7, 1}));
  // t = 3 where the bag with the fewest samples has none: two of three share the other all the
  // same.
  EXPECT_EQ(equal_count_bound_of({{1, 1, 1}, {5, 4, 3}, {1, 1}}, {3, 0}), (ratio{7, 1}));
}

TEST(EqualCountBound, IsZeroWithoutWork)
{
  EXPECT_EQ(equal_count_bound_of({{}, {}, {1, 1}}, {0, 0}), ratio{});
  EXPECT_EQ(equal_count_bound_of({{1, 1}, {0, 0}, {1, 1}}, {1, 1}), ratio{});
}

}  // namespace
