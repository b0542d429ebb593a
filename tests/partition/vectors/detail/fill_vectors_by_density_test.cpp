#include <ballast/partition/vectors/detail/fill_vectors_by_density.hpp>  // first: proves it is self-contained

#include "../../../support/bag_vectors.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::bin_id;
using ballast::cost_units;
using ballast::cost_vector;
using ballast::detail::dense_choice;

TEST(FillVectorsByDensity, GivesSlowBinsWhatIsCheap)
{
  std::vector<cost_vector<2>> const costs{{10, 0}, {80, 0}, {20, 0}, {70, 0}};
  std::vector<cost_units> const work{10, 80, 20, 70};
  std::vector<std::int64_t> const weights(4, 5);
  std::vector<std::int64_t> const capacities{10, 10};
  std::vector<std::uint32_t> const speeds{1, 5};
  ballast::vector_problem<2> const problem{
      .costs = costs, .speeds = speeds, .weights = weights, .capacities = capacities};
  std::vector<cost_vector<2>> const starts(2, cost_vector<2>{});
  for (auto const choice : {dense_choice::slack, dense_choice::speed}) {
    std::vector<cost_vector<2>> loads(2);
    std::vector<bin_id> owner(4);
    ballast::workspace memory;
    ASSERT_TRUE(ballast::detail::fill_vectors_by_density<2>(problem, work, choice, {30, 1}, starts,
                                                            loads, owner, memory));
    EXPECT_EQ(loads, (std::vector<cost_vector<2>>{{30, 0}, {150, 0}}));
  }
}

TEST(FillVectorsByDensity, KeepsToCapacitiesAndFits)  // Ensures (1) (2)
{
  ballast::random_source random(42);
  int filled = 0;
  for (int trial = 0; trial < 500 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::bag_vector_problem<2> const given{
        ballast_test::random_bag_vectors<2>(random, 40, 6)};
    if (!given.limited) { continue; }
    std::vector<cost_vector<2>> starts(given.step.gpus.size(), cost_vector<2>{});
    auto loads = starts;
    std::vector<cost_units> work;
    for (auto const& cost : given.step.costs) { work.push_back(cost[trial % 2 == 0 ? 0 : 1]); }
    std::vector<bin_id> owner(work.size());
    ballast::workspace memory;
    auto const choice = random.below(2) == 0 ? dense_choice::slack : dense_choice::speed;
    bool const all = ballast::detail::fill_vectors_by_density<2>(
        given.view(), work, choice, ballast::ratio{random.between(0, 2000)}, starts, loads, owner,
        memory);
    ballast_test::expect_kept_in_bags(given.step, owner, loads, all);
    filled += all ? 1 : 0;
  }
  EXPECT_GE(filled, 100);
}

}  // namespace
