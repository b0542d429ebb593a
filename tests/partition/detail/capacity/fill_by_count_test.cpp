#include <ballast/partition/detail/capacity/fill_by_count.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <limits>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;
using ballast::detail::bags_with_room;

struct count_case {
  ballast_test::direct_problem given;
  std::vector<bag_id> owner;
  std::vector<cost_units> starts = std::vector<cost_units>(given.step.gpus.size(), 0);
  std::vector<cost_units> loads = starts;
  ballast::workspace memory = {};

  bool fill()
  {
    auto frame = memory.open();
    bags_with_room const bags(given.view(), loads, owner, frame);
    ballast::detail::work_budget left(100'000);
    return ballast::detail::fill_by_count(given.view(), bags, starts, left, memory);
  }
};

std::vector<std::int64_t> sum_by_owner(std::vector<bag_id> const& owner,
                                       std::vector<std::int64_t> const& of, std::size_t bags)
{
  std::vector<std::int64_t> sums(bags, 0);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    sums[to_index(owner[sample])] += of[sample];
  }
  return sums;
}

TEST(FillByCount, KeepsNumbersOfSamplesAndCapacities)  // Ensures (1)
{
  ballast::random_source random(135);
  int filled = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::int64_t const unit = trial % 3 == 0 ? std::int64_t{1} << 40 : 1;
    ballast_test::instance step{{}, {}, {1, 2, 1, 3}};
    std::vector<std::int64_t> weights;
    std::vector<bag_id> owner;
    for (int sample = 0; sample < 40; ++sample) {
      step.lengths.push_back(random.between(1, 9));
      step.costs.push_back(random.between(0, 60));
      weights.push_back(unit * random.between(0, 900));
      std::size_t const bag = step.lengths.back() < 3 ? 2 * random.below(2) : random.below(4);
      owner.push_back(ballast::to_id<bag_id>(bag));
    }
    std::vector<std::int64_t> const ones(40, 1);
    auto const counts = sum_by_owner(owner, ones, 4);
    auto capacities = sum_by_owner(owner, weights, 4);  // what is feasible, mixed up a little
    std::swap(capacities[0], capacities[2]);
    for (auto& capacity : capacities) { capacity += unit * random.between(0, 100); }
    if (trial % 5 == 0) { capacities[1] = std::numeric_limits<std::int64_t>::max(); }
    count_case plan{ballast_test::direct_problem(step, weights, capacities), owner};
    plan.starts = {5, 0, 0, 7};
    bool const all = plan.fill();
    ASSERT_EQ(sum_by_owner(plan.owner, ones, 4), counts);
    auto const held = sum_by_owner(plan.owner, weights, 4);
    auto costs = sum_by_owner(plan.owner, step.costs, 4);
    bool within = true;
    for (std::size_t bag = 0; bag < 4; ++bag) {
      within = within && held[bag] <= capacities[bag];
      costs[bag] += plan.starts[bag];
    }
    ASSERT_EQ(all, within);
    ASSERT_EQ(costs, plan.loads);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      ASSERT_TRUE(ballast::partition_problem::fits(step.lengths[sample],
                                                   step.gpus[to_index(plan.owner[sample])]));
    }
    filled += all ? 1 : 0;
  }
  EXPECT_GT(filled, 60);
}

}  // namespace
