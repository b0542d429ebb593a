#include <ballast/partition/cost_vector_lower_bound.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/vector_checks.hpp"

#include <ballast/partition/longest_processing_time.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

template <std::size_t D>
ratio bound_of(vector_step<D> const& step)
{
  return plan_vectors(step, longest_processing_time{}).value().lower_bound;
}
ratio bound_in_bins(std::vector<cost_vector<2>> const& costs, std::size_t bins)
{
  return bound_of<2>({costs, {}, {}, std::vector<std::uint32_t>(bins, 1)});
}

template <std::size_t D>
void expect_below_the_optimum(std::uint64_t seed, bool bags, int least_tight)
{
  random_source random(seed);
  int tight = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial << " dimensions " << D);
    auto const step = bags ? random_bag_vectors<D>(random, 7, 4) : random_vectors<D>(random, 8, 4);
    auto const best = step.optimum();
    if (!best) { continue; }
    ASSERT_LE(bound_of(step), *best);
    tight += bound_of(step) == *best ? 1 : 0;
  }
  EXPECT_GE(tight, least_tight);
}

TEST(VectorLowerBound, IsNeverAboveTheOptimum)  // Ensures (1)
{
  expect_below_the_optimum<1>(51, false, 300);
  expect_below_the_optimum<2>(52, false, 250);
  expect_below_the_optimum<3>(53, false, 200);
  expect_below_the_optimum<2>(54, true, 120);
}

TEST(VectorLowerBound, SeesSamplesThatHaveToMeet)
{
  // Two of three samples share a bin, and any two together have 24 units of work in two dimensions.
  // Each dimension by itself would allow 9: its mean.
  EXPECT_EQ(bound_in_bins({{10, 2}, {2, 10}, {6, 6}}, 2), ratio{12});
  EXPECT_EQ(bound_in_bins({{10, 0}, {0, 10}}, 1), ratio{10});
  EXPECT_EQ(bound_in_bins({{7, 1}, {1, 1}}, 9), ratio{7});
  EXPECT_EQ(bound_in_bins({}, 2), ratio{0});
}

TEST(VectorLowerBound, LeavesOutSumsThatDoNotFit)
{
  constexpr cost_units most = no_cost - 1;
  EXPECT_EQ(bound_in_bins({{most, most}}, 1), ratio{most});
  EXPECT_EQ(bound_in_bins({{most - 1, 1}, {1, most - 1}}, 1), ratio{most});
}

TEST(VectorLowerBound, KnowsWhatSlowBagsHaveToHold)
{
  // Speeds 9 and 1 share 40 units of work by 4 per unit of speed, but each bag has to hold two
  // samples, and the slow one two of 10.
  vector_step<2> step{{{10, 0}, {10, 0}, {10, 0}, {10, 0}}, {}, {5, 5, 5, 5}, {1, 1}, {9, 1}};
  EXPECT_LE(bound_of(step), (ratio{10, 1}));
  step.most_per_gpu = 10;
  EXPECT_EQ(bound_of(step), (ratio{20, 1}));
}

}  // namespace
