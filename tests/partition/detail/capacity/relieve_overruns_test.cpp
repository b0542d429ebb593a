#include <ballast/partition/detail/capacity/relieve_overruns.hpp>  // first: proves it is self-contained

#include "../../../support/dealt_plan.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/random.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;
using ballast::detail::bags_with_room;

struct relief_case : ballast_test::dealt_plan {
  using dealt_plan::dealt_plan;

  bool relieve(ratio limit, std::uint64_t work = 1'000'000)
  {
    auto frame = memory.open();
    bags_with_room const bags(given.view(), loads, owner, frame);
    ballast::detail::work_budget left(work);
    ballast::detail::capped_exchanges plan(given.view(), loads, owner, bags.held(), left, memory,
                                           frame);
    return ballast::detail::relieve_overruns(plan, given.speeds, limit, frame);
  }

  std::vector<std::int64_t> held() const
  {
    std::vector<std::int64_t> weighs(loads.size(), 0);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      weighs[to_index(owner[sample])] += given.weights[sample];
    }
    return weighs;
  }
};

relief_case drawn_case(ballast::random_source& random, std::int64_t slack)
{
  std::size_t const bags = 8;
  ballast_test::instance step{
      std::vector<ballast::tokens>(bags * 16, 9), {}, std::vector<std::uint32_t>(bags, 1)};
  std::vector<std::int64_t> weights;
  for (std::size_t sample = 0; sample < bags * 16; ++sample) {
    step.costs.push_back(random.between(1'000, 40'000));
    weights.push_back(random.between(100, 4'000));
  }
  std::int64_t const total = std::reduce(weights.begin(), weights.end(), std::int64_t{0});
  std::int64_t const most = total * slack / 100 / static_cast<std::int64_t>(bags);
  return relief_case{
      ballast_test::direct_problem(step, weights, std::vector<std::int64_t>(bags, most))};
}

TEST(RelieveOverruns, BringsBagsWithinTheirCapacities)  // Ensures (1) (2)
{
  ballast::random_source random(131);
  int relieved = 0;
  int even = 0;
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    relief_case step = drawn_case(random, 102);
    cost_units const most = step.given.capacities[0];
    bool const done = step.relieve({0, 1});
    ASSERT_EQ(done, std::ranges::max(step.held()) <= most);
    relieved += done ? 1 : 0;
    // A plan in turn is uneven, and no bag had to become later than the latest.
    std::vector<cost_units> before(8, 0);
    for (std::size_t sample = 0; sample < step.owner.size(); ++sample) {
      before[sample % 8] += step.given.step.costs[sample];
    }
    even += std::ranges::max(step.loads) <= std::ranges::max(before) ? 1 : 0;
  }
  EXPECT_GT(relieved, 50);
  EXPECT_GT(even, 50);
}

TEST(RelieveOverruns, LeavesPlansAloneThatKeepToCapacities)
{
  ballast::random_source random(132);
  relief_case step = drawn_case(random, 300);
  EXPECT_TRUE(step.relieve({0, 1}));
  for (std::size_t sample = 0; sample < step.owner.size(); ++sample) {
    EXPECT_EQ(to_index(step.owner[sample]), sample % 8);
  }
}

TEST(RelieveOverruns, SaysWhereItFails)
{
  ballast::random_source random(133);
  EXPECT_FALSE(drawn_case(random, 99).relieve({0, 1}));
  EXPECT_FALSE(drawn_case(random, 102).relieve({0, 1}, 0));
  relief_case alone{ballast_test::direct_problem({{9}, {1}, {1}}, {7}, {6})};
  EXPECT_FALSE(alone.relieve({0, 1}));
}

}  // namespace
