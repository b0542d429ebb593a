// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_POLICY_CHECKS_HPP
#define BALLAST_TESTS_SUPPORT_POLICY_CHECKS_HPP

#include "instances.hpp"  // defines: ballast_test::{random_instance, plan_instance}
#include "trials.hpp"     // defines: ballast_test::trials_of

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast_test {

/// What every policy promises, recomputed from the owners alone: Ensures (1) and (2) of each.
inline void expect_valid_plan(instance const& step, ballast::partition_plan const& plan)
{
  ASSERT_EQ(plan.owner.size(), step.costs.size());
  std::vector<ballast::cost_units> loads(step.gpus.size(), 0);
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    std::size_t const bag = to_index(plan.owner[sample]);
    ASSERT_LT(bag, step.gpus.size());
    EXPECT_TRUE(step.lengths[sample] == 0 ||
                step.lengths[sample] >= static_cast<ballast::tokens>(step.gpus[bag]))
        << "sample " << sample << " has fewer tokens than bag " << bag << " has GPUs";
    loads[bag] += step.costs[sample];
  }
  EXPECT_EQ(plan.loads, loads);
  ballast::ratio makespan;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    makespan = std::max(makespan, ballast::ratio{loads[bag], step.speed_of(bag)});
  }
  EXPECT_EQ(plan.makespan, makespan);
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

/// Runs a policy over random steps, among them the edges: no samples, fewer samples than bags,
/// bags of several sizes and speeds, samples shorter than bags, samples without tokens, ties, zero
/// costs.
template <class Policy>
void expect_valid_plans(Policy const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    instance const step = random_instance(random, 40, 9, 8);
    auto const plan = plan_instance(step, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_plan(step, *plan);
    if (testing::Test::HasFailure()) { return; }
  }
}

/// Work that bags have before planning enters the loads and stays in them.
template <class Policy>
void expect_starting_loads_counted(Policy const& policy)
{
  std::vector<ballast::cost_units> const costs{5, 4, 3};
  std::vector<ballast::tokens> const lengths{1, 1, 1};
  std::vector<ballast::priced_sample> const order{
      {5, ballast::sample_id{0}}, {4, ballast::sample_id{1}}, {3, ballast::sample_id{2}}};
  std::vector<std::uint32_t> const gpus{1, 1};
  std::vector<ballast::cost_units> loads{100, 1};
  std::vector<ballast::bag_id> owner(3, ballast::bag_id{2});
  ballast::workspace memory;
  run_policy(policy, ballast::partition_problem{costs, lengths, order, gpus, gpus}, loads, owner,
             memory);
  std::vector<ballast::cost_units> expected{100, 1};
  for (std::size_t sample = 0; sample < 3; ++sample) {
    expected[to_index(owner[sample])] += costs[sample];
  }
  EXPECT_EQ(loads, expected);
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_POLICY_CHECKS_HPP
