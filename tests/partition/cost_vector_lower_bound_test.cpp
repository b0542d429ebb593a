#include <ballast/partition/cost_vector_lower_bound.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

template <std::size_t D>
cost_units bound(vector_instance<D> const& step)
{
  workspace memory;
  return cost_vector_lower_bound(cost_vector_problem<D>{step.costs}, step.bins, memory).numerator;
}

template <std::size_t D>
void expect_below_the_optimum(std::uint64_t seed, int least_tight)
{
  random_source random(seed);
  int tight = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial << " dimensions " << D);
    auto const step = random_vectors<D>(random, 8, 4);
    cost_units const best = optimum(step);
    ASSERT_LE(bound(step), best);
    tight += bound(step) == best ? 1 : 0;
  }
  EXPECT_GE(tight, least_tight);
}

TEST(VectorLowerBound, IsNeverAboveTheOptimum)  // Ensures (1)
{
  expect_below_the_optimum<1>(51, 300);
  expect_below_the_optimum<2>(52, 250);
  expect_below_the_optimum<3>(53, 200);
}

TEST(VectorLowerBound, SeesSamplesThatHaveToMeet)
{
  // Two of three samples share a bin, and any two together have 24 units of work in two dimensions.
  // Each dimension by itself would allow 9: its mean.
  EXPECT_EQ(bound<2>({{{10, 2}, {2, 10}, {6, 6}}, 2}), 12);
  EXPECT_EQ(bound<2>({{{10, 0}, {0, 10}}, 1}), 10);
  EXPECT_EQ(bound<2>({{{7, 1}, {1, 1}}, 9}), 7);
  EXPECT_EQ(bound<3>({{}, 2}), 0);
}

TEST(VectorLowerBound, LeavesOutSumsThatDoNotFit)
{
  constexpr cost_units most = no_cost - 1;
  EXPECT_EQ(bound<2>({{{most, most}}, 1}), most);
  EXPECT_EQ(bound<2>({{{most - 1, 1}, {1, most - 1}}, 1}), most);
}

template <std::size_t D>
ratio bound_in_bags(bag_vectors<D> const& step)
{
  workspace memory;
  return cost_vector_lower_bound(bag_vector_problem<D>{step}.view(), step.gpus.size(), memory);
}

TEST(VectorLowerBound, IsNeverAboveTheOptimumInBags)  // Ensures (1)
{
  random_source random(54);
  int tight = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_bag_vectors<2>(random, 7, 4);
    auto const best = best_in_bags(step);
    if (!best) { continue; }
    ASSERT_LE(bound_in_bags(step), *best);
    tight += bound_in_bags(step) == *best ? 1 : 0;
  }
  EXPECT_GE(tight, 120);
}

TEST(VectorLowerBound, KnowsWhatSlowBagsHaveToHold)
{
  // Speeds 9 and 1 share 40 units of work by 4 per unit of speed, but each bag has to hold two
  // samples, and the slow one two of 10.
  bag_vectors<2> step{
      {{10, 0}, {10, 0}, {10, 0}, {10, 0}}, {1, 1, 1, 1}, {5, 5, 5, 5}, {1, 1}, {9, 1}};
  EXPECT_LE(bound_in_bags(step), (ratio{10, 1}));
  step.most_per_gpu = 10;
  EXPECT_EQ(bound_in_bags(step), (ratio{20, 1}));
}

}  // namespace
