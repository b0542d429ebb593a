// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "direct_problem.hpp"  // defines: ballast_test::{direct_problem, plan_directly}
#include "instances.hpp"       // defines: ballast_test::{random_instance, plan_instance}
#include "test.hpp"

namespace ballast_test {

/// What every policy promises, recomputed from the owners alone: Ensures (1) and (2) of each.
inline void expect_valid_plan(instance const& step, ballast::partition_plan const& plan)
{
  ASSERT_EQ(plan.owner.size(), step.costs.size());
  auto const owner = assignment_of(plan.owner);
  for (std::size_t const bag : owner) { ASSERT_LT(bag, step.gpus.size()); }
  EXPECT_TRUE(step.all_fit(owner)) << "a sample has fewer tokens than its bag has GPUs";
  EXPECT_EQ(plan.loads, step.loads(owner));
  EXPECT_EQ(plan.makespan, step.makespan_of(plan.loads));
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

/// Batches that pad, as this policy has them.
inline instance padded_for(policy_ref const& policy, instance step)
{
  bool const is_packed = policy.batches() == ballast::batching::packed;
  if (is_packed || !step.padded.empty()) { return step; }
  step.padded = step.costs;
  if (policy.batches() == ballast::batching::padded) { return step; }
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    step.padded[sample] = step.costs[sample] * static_cast<std::int64_t>(sample % 5) / 4;
  }
  return step;
}

/// Runs a policy over random steps, among them the edges: no samples, fewer samples than bags,
/// bags of several sizes and speeds, samples shorter than bags, samples without tokens, ties, zero
/// costs. Some steps are planned again, to the same plan.
inline void expect_valid_plans(policy_ref const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    instance const step = padded_for(policy, random_instance(random, 40, 9, 8));
    auto const plan = plan_instance(step, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    expect_valid_plan(step, *plan);
    bool const pads_attention = policy.batches() == ballast::batching::attention_padded;
    if (pads_attention) { EXPECT_EQ(plan->attention, step.padded); }
    if (trial % 20 == 0) { EXPECT_EQ(plan->digest(), plan_instance(step, policy)->digest()); }
    if (testing::Test::HasFailure()) { return; }
  }
}

/// Work of each bag before a step.
inline std::vector<ballast::cost_units> random_loads(ballast::random_source& random,
                                                     instance const& step, ballast::cost_units most)
{
  std::vector<ballast::cost_units> loads(step.gpus.size());
  for (auto& load : loads) { load = random.between(0, most); }
  return loads;
}

/// Work that bags have before planning enters the loads, stays in them and delays their batches.
inline void expect_starting_loads_counted(policy_ref const& policy)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < trials_of(100); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    instance step = padded_for(policy, random_instance(random, 20, 6, 4));
    step.before = random_loads(random, step, 2000);
    auto const plan = plan_directly(direct_problem(step), policy);
    auto const owner = assignment_of(plan.owner);
    for (std::size_t const bag : owner) { ASSERT_LT(bag, step.gpus.size()); }
    ASSERT_EQ(plan.loads, step.loads(owner));
    ASSERT_LE(plan.proven, step.makespan_of(plan.loads));
  }
}

/// A policy that says what it promises by its value, and not by its type: as any_policy.
template <class Policy>
struct said_by_value : Policy {
  [[nodiscard]] ballast::batching batches() const { return ballast::batching_of(Policy{}); }
};

/// How plans compare with the best of all plans.
struct compared_plans {
  int optimal = 0;  ///< as many are as good
  int proven = 0;   ///< as many are known to be
  int tight = 0;    ///< as many of those with work have a bound as high
  double worst = 1;
  double makespans = 0;  ///< the sum, each by the best of its step
  double bounds = 0;     ///< the same of lower bounds
};

/// Plans the steps that `draw(random, trial)` gives, and tries all plans of each: none is better than
/// what was found, or as short as its bound denies.
template <class Draw>
compared_plans compare_with_all_plans(policy_ref const& policy, std::uint64_t seed, int trials,
                                      Draw const& draw)
{
  ballast::random_source random(seed);
  compared_plans found;
  for (int trial = 0; trial < trials && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    instance const step = padded_for(policy, draw(random, trial));
    auto const plan = plan_instance(step, policy);
    EXPECT_TRUE(plan);
    if (!plan) { break; }
    ballast::ratio const best = *optimum(step);
    expect_valid_plan(step, *plan);
    EXPECT_GE(plan->makespan, best);
    EXPECT_LE(plan->lower_bound, best);
    found.optimal += plan->makespan == best ? 1 : 0;
    found.proven += plan->proven_optimal() ? 1 : 0;
    bool const has_work = best.numerator > 0;
    found.tight += has_work && plan->lower_bound == best ? 1 : 0;
    double const share = has_work ? plan->makespan.value() / best.value() : 1;
    found.worst = std::max(found.worst, share);
    found.makespans += share;
    found.bounds += has_work ? plan->lower_bound.value() / best.value() : 1;
  }
  return found;
}

}  // namespace ballast_test
