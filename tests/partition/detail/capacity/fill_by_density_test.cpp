#include <ballast/partition/detail/capacity/fill_by_density.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;
using ballast::detail::bags_with_room;

struct density_case {
  ballast_test::direct_problem given;
  std::vector<cost_units> starts = std::vector<cost_units>(given.step.gpus.size(), 0);
  std::vector<cost_units> loads = starts;
  std::vector<bag_id> owner = std::vector<bag_id>(given.step.costs.size(), bag_id{0});
  std::vector<std::int64_t> held = {};
  ballast::workspace memory = {};

  bool fill(ratio finish)
  {
    auto frame = memory.open();
    bags_with_room const bags(given.view(), loads, owner, frame);
    ballast::detail::cheapest_cover const cover(given.view(), frame);
    bool const all =
        ballast::detail::fill_by_density(given.view(), bags, starts, finish, cover, memory);
    held.assign(bags.held().begin(), bags.held().end());
    return all;
  }
};

TEST(FillByDensity, GivesTheBagOfALongSampleTheShortestOnes)
{
  // Lengths are weights, and work grows faster: the long sample needs half of what a bag can do.
  density_case step{ballast_test::direct_problem(
      {{50, 30, 30, 20, 10, 10, 10}, {2500, 900, 900, 400, 100, 100, 100}, {1, 1}},
      {50, 30, 30, 20, 10, 10, 10}, {80, 80})};
  ASSERT_TRUE(step.fill({2500, 1}));
  EXPECT_EQ(step.held, (std::vector<std::int64_t>{80, 80}));
  EXPECT_EQ(step.loads, (std::vector<cost_units>{2800, 2200}));
}

TEST(FillByDensity, GivesSlowBagsWhatIsCheap)
{
  density_case step{ballast_test::direct_problem({{9, 9, 9, 9}, {10, 80, 20, 70}, {1, 1}, {1, 5}},
                                                 {5, 5, 5, 5}, {10, 10})};
  ASSERT_TRUE(step.fill({30, 1}));
  EXPECT_EQ(step.loads, (std::vector<cost_units>{30, 150}));
}

TEST(FillByDensity, KeepsToCapacitiesAndFits)  // Ensures (1) (2)
{
  ballast::random_source random(134);
  int filled = 0;
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::instance step{{}, {}, {1, 2, 1, 3}, {1, 2, 3, 1}};
    std::vector<std::int64_t> weights;
    for (int sample = 0; sample < 40; ++sample) {
      step.lengths.push_back(random.between(1, 4));
      step.costs.push_back(random.between(0, 60));
      weights.push_back(random.between(0, 9));
    }
    std::int64_t const total = std::reduce(weights.begin(), weights.end(), std::int64_t{0});
    std::vector<std::int64_t> const capacities(4, total * random.between(95, 120) / 400);
    density_case plan{ballast_test::direct_problem(step, weights, capacities)};
    plan.starts = {5, 0, 0, 7};
    bool const all = plan.fill({random.between(1, 300), 1});
    std::vector<std::int64_t> weighs(4, 0);
    std::vector<cost_units> costs = plan.starts;
    bool placed = true;
    for (std::size_t sample = 0; sample < weights.size(); ++sample) {
      std::size_t const bag = to_index(plan.owner[sample]);
      placed = placed && bag < 4;
      if (bag == 4) { continue; }
      ASSERT_TRUE(ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag]));
      weighs[bag] += weights[sample];
      costs[bag] += step.costs[sample];
    }
    ASSERT_EQ(all, placed);
    ASSERT_EQ(weighs, plan.held);
    ASSERT_EQ(costs, plan.loads);
    ASSERT_LE(std::ranges::max(weighs), capacities[0]);
    filled += all ? 1 : 0;
  }
  EXPECT_GT(filled, 200);
  EXPECT_LT(filled, 600);
}

}  // namespace
