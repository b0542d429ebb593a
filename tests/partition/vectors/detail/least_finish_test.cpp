#include <ballast/partition/vectors/detail/least_finish.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::cost_vector;
using ballast::ratio;

TEST(SumOf, AddsDimensionByDimension)
{
  std::vector<cost_vector<2>> const loads{{1, 5}, {2, 6}};
  EXPECT_EQ(ballast::detail::sum_of<2>(loads), (cost_vector<2>{3, 11}));
  EXPECT_EQ(ballast::detail::sum_of<2>({}), (cost_vector<2>{}));
}

TEST(FinishOf, IsTheLargestLoadPerSpeed)
{
  std::vector<cost_vector<2>> const loads{{1, 5}, {2, 6}};
  std::vector<std::uint32_t> const speeds{1, 2};
  EXPECT_EQ(ballast::detail::finish_of<2>({}, loads), ratio{6});
  EXPECT_EQ(ballast::detail::finish_of<2>({.costs = {}, .speeds = speeds}, loads), ratio{5});
}

TEST(LeastFinish, IsTheMeanOrTheLargestCost)
{
  std::vector<cost_vector<2>> const costs{{1, 5}, {2, 6}};
  ballast::vector_problem<2> problem{costs};
  auto const total = ballast::detail::sum_of<2>(costs);
  EXPECT_EQ(ballast::detail::least_finish(problem, total, 1), ratio{11});
  EXPECT_EQ(ballast::detail::least_finish(problem, total, 2), ratio{6});
  EXPECT_EQ(ballast::detail::least_finish(problem, {0, 29}, 4), ratio{8});
  std::vector<std::uint32_t> const speeds{3, 1};
  problem.speeds = speeds;
  EXPECT_EQ(ballast::detail::least_finish(problem, total, 2), (ratio{11, 4}));
  std::vector<std::uint32_t> const equal{3, 3};
  problem.speeds = equal;
  EXPECT_EQ(ballast::detail::least_finish(problem, total, 2), (ratio{6, 3}));
}

TEST(LeastFinish, IsNotAboveTheOptimum)
{
  ballast::random_source random(21);
  for (int trial = 0; trial < 300; ++trial) {
    ballast_test::bag_vector_problem<2> const given{
        ballast_test::random_bag_vectors<2>(random, 6, 4)};
    auto const best = ballast_test::best_in_bags(given.step);
    if (!best) { continue; }
    auto const total = ballast::detail::sum_of<2>(given.step.costs);
    EXPECT_LE(ballast::detail::least_finish(given.view(), total, given.step.gpus.size()), *best);
  }
}

}  // namespace
