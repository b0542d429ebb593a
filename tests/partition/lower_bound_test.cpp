#include <ballast/partition/lower_bound.hpp>  // first: proves it is self-contained

#include "../support/instances.hpp"

#include <gtest/gtest.h>
#include <ballast/partition/round_robin.hpp>

#include <cstdint>
#include <vector>

namespace {

using ballast::ratio;

ratio bound_of(ballast_test::instance const& step)
{
  auto const plan = ballast_test::plan_instance(step, ballast::round_robin{});
  return plan.value().lower_bound;
}

TEST(MakespanLowerBound, IsNeverAboveTheOptimum)  // Ensures (1)
{
  ballast::random_source random(11);
  int tight = 0;
  int steps_with_work = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    auto const step = ballast_test::random_instance(random, 7, 4, trial % 2 == 0 ? 1 : 6);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ratio const best = *ballast_test::optimum(step);
    ratio const bound = bound_of(step);
    ASSERT_LE(bound, best);
    if (best.numerator > 0) {
      ++steps_with_work;
      tight += bound == best ? 1 : 0;
    }
  }
  // A bound of zero would pass the line above; this one meets the optimum more often than not.
  EXPECT_GT(2 * tight, steps_with_work);
}

TEST(MakespanLowerBound, KnowsEachOfItsParts)
{
  // (a) the mean, rounded up to whole units per bag of one size
  EXPECT_EQ(bound_of({{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1}}), (ratio{2, 1}));
  EXPECT_EQ(bound_of({{9, 9, 9}, {4, 4, 4}, {1, 2}}), (ratio{4, 1}));
  // (a) two short samples confined to the one bag of one GPU
  EXPECT_EQ(bound_of({{1, 1, 9}, {6, 6, 1}, {1, 8}}), (ratio{12, 1}));
  // (a) (b) the heaviest sample on the largest bag that it fits
  EXPECT_EQ(bound_of({{9, 9}, {60, 1}, {1, 2}}), (ratio{30, 1}));
  EXPECT_EQ(bound_of({{1, 9, 9}, {60, 1, 1}, {1, 2}}), (ratio{60, 1}));
  // (b) two samples of 10 against bags of 1 and 9 GPUs: both on the large one is best, 20/9 each,
  // and the mean 20/10 is the bound
  EXPECT_EQ(bound_of({{9, 9}, {10, 10}, {1, 9}}), (ratio{2, 1}));
  // (c) four samples of 5 in three bags: some bag has two
  EXPECT_EQ(bound_of({{1, 1, 1, 1}, {5, 5, 5, 5}, {1, 1, 1}}), (ratio{10, 1}));
  // (c) with k = 2: seven samples of 5 in three bags
  EXPECT_EQ(bound_of({{1, 1, 1, 1, 1, 1, 1}, {5, 5, 5, 5, 5, 5, 5}, {1, 1, 1}}), (ratio{15, 1}));
}

TEST(MakespanLowerBound, IsZeroWithoutWork)
{
  EXPECT_EQ(bound_of({{}, {}, {1, 2}}), (ratio{0, 1}));
  EXPECT_EQ(bound_of({{0, 5}, {0, 0}, {1, 2}}), (ratio{0, 1}));
}

}  // namespace
