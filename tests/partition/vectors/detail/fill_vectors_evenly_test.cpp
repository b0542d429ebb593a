#include <ballast/partition/vectors/detail/fill_vectors_evenly.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::bin_id;
using ballast::cost_vector;

TEST(SharesOfLimits, CompareBetweenBins)
{
  std::vector<std::int64_t> const limits{100, 300, 0, std::int64_t{1} << 60};
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::shares_of_limits const shares(limits, scratch);
  EXPECT_EQ(shares.share(0, 0), 0U);
  EXPECT_LT(shares.share(0, 49), shares.share(1, 150));
  EXPECT_GT(shares.share(0, 51), shares.share(1, 150));
  EXPECT_GT(shares.share(2, 1), shares.share(0, 1));
  EXPECT_LT(shares.share(3, std::int64_t{1} << 59), shares.share(0, 51));
  EXPECT_GT(shares.share(3, std::int64_t{1} << 59), shares.share(0, 49));
}

TEST(FillVectorsEvenly, CountsWeightAsOneMoreDimension)
{
  // By work alone the last two would meet in the second bin, which cannot hold both.
  std::vector<cost_vector<1>> const costs{{8}, {2}, {2}, {1}, {1}};
  std::vector<std::int64_t> const weights{1, 4, 5, 6, 4};
  std::vector<std::int64_t> const capacities{10, 10};
  ballast::vector_problem<1> const problem{
      .costs = costs, .weights = weights, .capacities = capacities};
  std::vector<cost_vector<1>> const starts(2, cost_vector<1>{});
  std::vector<cost_vector<1>> loads(2);
  std::vector<bin_id> owner(5);
  ballast::workspace memory;
  ASSERT_TRUE(ballast::detail::fill_vectors_evenly<1>(problem, starts, loads, owner, memory));
  EXPECT_EQ(loads[0][0] + loads[1][0], 14);
}

TEST(FillVectorsEvenly, KeepsToCapacitiesAndFits)  // Ensures (1) (2)
{
  ballast::random_source random(41);
  int filled = 0;
  for (int trial = 0; trial < 500 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::bag_vector_problem<2> const given{
        ballast_test::random_bag_vectors<2>(random, 40, 6)};
    if (!given.limited) { continue; }
    std::vector<cost_vector<2>> const starts(given.step.gpus.size(), cost_vector<2>{});
    auto loads = starts;
    std::vector<bin_id> owner(given.step.costs.size());
    ballast::workspace memory;
    bool const all =
        ballast::detail::fill_vectors_evenly<2>(given.view(), starts, loads, owner, memory);
    ballast_test::expect_kept_in_bags(given.step, owner, loads, all);
    filled += all ? 1 : 0;
  }
  EXPECT_GE(filled, 100);
}

}  // namespace
