// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "direct_problem.hpp"  // defines: ballast_test::{direct_problem, plan_directly}
#include "instances.hpp"       // defines: ballast_test::{random_instance, plan_instance}
#include "test.hpp"
#include "trials.hpp"  // defines: ballast_test::trials_of

namespace ballast_test {

/// What every policy promises, recomputed from the owners alone: Ensures (1) and (2) of each. Of
/// `padded` see batch_loads.
inline void expect_valid_plan(instance const& step, ballast::partition_plan const& plan,
                              std::vector<ballast::cost_units> const& padded = {})
{
  ASSERT_EQ(plan.owner.size(), step.costs.size());
  auto const owner = assignment_of(plan.owner);
  for (std::size_t const bag : owner) { ASSERT_LT(bag, step.gpus.size()); }
  EXPECT_TRUE(step.all_fit(owner)) << "a sample has fewer tokens than its bag has GPUs";
  EXPECT_EQ(plan.loads, batch_loads(step, owner, padded));
  EXPECT_EQ(plan.makespan, step.makespan_of(plan.loads));
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

/// Runs a policy over random steps, among them the edges: no samples, fewer samples than bags,
/// bags of several sizes and speeds, samples shorter than bags, samples without tokens, ties, zero
/// costs. Some steps are planned again, to the same plan.
inline void expect_valid_plans(policy_ref const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  bool const pads = policy.batches() == ballast::batching::padded;
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    instance const step = random_instance(random, 40, 9, 8);
    auto const plan = plan_instance(step, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_plan(step, *plan, pads ? step.costs : std::vector<ballast::cost_units>{});
    if (trial % 20 == 0) { EXPECT_EQ(plan->digest(), plan_instance(step, policy)->digest()); }
    if (testing::Test::HasFailure()) { return; }
  }
}

/// Work that bags have before planning enters the loads, stays in them and delays their batches.
inline void expect_starting_loads_counted(policy_ref const& policy)
{
  ballast::random_source random(4);
  bool const pads = policy.batches() == ballast::batching::padded;
  for (int trial = 0; trial < trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    direct_problem const problem(random_instance(random, 20, 6, 4));
    std::vector<ballast::cost_units> starts(problem.step.gpus.size());
    for (auto& load : starts) { load = random.between(0, 2000); }
    auto const plan = plan_directly(problem.view(), policy, starts);
    auto const owner = assignment_of(plan.owner);
    for (std::size_t const bag : owner) { ASSERT_LT(bag, starts.size()); }
    ASSERT_EQ(plan.loads,
              batch_loads(problem.step, owner,
                          pads ? problem.step.costs : std::vector<ballast::cost_units>{}, starts));
    ASSERT_LE(plan.proven, problem.step.makespan_of(plan.loads));
  }
}

}  // namespace ballast_test
