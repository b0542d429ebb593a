#include <ballast/partition/detail/vectors/place_vectors_within_capacity.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_vector;

TEST(KeepsToCapacities, LooksAtEveryBin)
{
  std::vector<cost_vector<1>> const costs{{1}, {1}, {1}};
  std::vector<std::int64_t> const weights{2, 3, 5};
  std::vector<std::int64_t> const capacities{5, 5};
  ballast::cost_vector_problem<1> const problem{
      .costs = costs, .weights = weights, .capacities = capacities};
  ballast::workspace memory;
  auto const keeps = [&](std::vector<bag_id> const& owner) {
    return ballast::detail::keeps_to_capacities<1>(problem, owner, memory);
  };
  EXPECT_TRUE(keeps({bag_id{0}, bag_id{0}, bag_id{1}}));
  EXPECT_FALSE(keeps({bag_id{0}, bag_id{1}, bag_id{1}}));
  EXPECT_FALSE(keeps({bag_id{0}, bag_id{2}, bag_id{1}}));
}

TEST(PlaceVectorsWithinCapacity, FindsAPlanWhereOneExists)  // Ensures (1) (2)
{
  ballast::random_source random(43);
  int found = 0;
  int refused = 0;
  for (int trial = 0; trial < 500 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::bag_vector_problem<2> const given{
        ballast_test::random_bag_vectors<2>(random, 8, 4)};
    if (!given.limited) { continue; }
    std::vector<cost_vector<2>> const starts(given.step.gpus.size(), cost_vector<2>{});
    auto loads = starts;
    std::vector<bag_id> owner(given.step.costs.size());
    ballast::workspace memory;
    bool const all = ballast::detail::place_vectors_within_capacity<2>(given.view(), starts, loads,
                                                                       owner, memory);
    ASSERT_EQ(all, ballast_test::best_in_bags(given.step).has_value());
    ballast_test::expect_kept_in_bags(given.step, owner, loads, all);
    (all ? found : refused) += 1;
  }
  EXPECT_GE(found, 100);
  EXPECT_GE(refused, 30);
}

TEST(PlaceVectorsWithinCapacity, SearchesWhereEveryFillingFails)
{
  // 6 + 5 + 5 + 2 and 4 + 4 + 4 + 3 + 3 fill two bins of 18 to the last unit.
  std::vector<std::int64_t> const weights{6, 5, 5, 4, 4, 4, 3, 3, 2};
  std::vector<cost_vector<1>> const costs(weights.size(), cost_vector<1>{1});
  std::vector<std::int64_t> const capacities{18, 18};
  ballast::cost_vector_problem<1> const problem{
      .costs = costs, .weights = weights, .capacities = capacities};
  std::vector<cost_vector<1>> const starts{{7}, {8}};
  std::vector<cost_vector<1>> loads(2);
  std::vector<bag_id> owner(weights.size());
  ballast::workspace memory;
  ASSERT_TRUE(
      ballast::detail::place_vectors_within_capacity<1>(problem, starts, loads, owner, memory));
  EXPECT_TRUE(ballast::detail::keeps_to_capacities<1>(problem, owner, memory));
  EXPECT_EQ(loads[0][0] + loads[1][0], 7 + 8 + 9);
}

}  // namespace
