// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_PADDED_CHECKS_HPP
#define BALLAST_TESTS_SUPPORT_PADDED_CHECKS_HPP

#include "counted_allocations.hpp"  // defines: ballast_test::allocations
#include "direct_problem.hpp"       // defines: ballast_test::direct_problem
#include "instances.hpp"            // defines: ballast_test::{random_instance, plan_instance}
#include "trials.hpp"               // defines: ballast_test::trials_of

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ballast_test {

/// A batch in which every sample costs what the heaviest does.
struct padded_bag {
  ballast::cost_units count = 0;
  ballast::cost_units largest = 0;

  void add(ballast::cost_units cost)
  {
    ++count;
    largest = std::max(largest, cost);
  }
  [[nodiscard]] ballast::cost_units load() const { return count * largest; }
};

/// The makespan of padded batches with these owners.
inline ballast::ratio padded_makespan(instance const& step,
                                      std::vector<ballast::bag_id> const& owner,
                                      std::vector<ballast::cost_units> loads = {})
{
  std::vector<padded_bag> bags(step.gpus.size());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    bags[to_index(owner[sample])].add(step.costs[sample]);
  }
  loads.resize(bags.size());
  ballast::ratio makespan;
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    makespan =
        std::max(makespan, ballast::ratio{loads[bag] + bags[bag].load(), step.speed_of(bag)});
  }
  return makespan;
}

/// The least makespan of padded batches over all assignments: m^n of them, less those that begin
/// worse than the best one found.
class padded_optimum {
 public:
  explicit padded_optimum(instance const& step, std::vector<ballast::cost_units> loads = {})
      : step_(step), loads_(std::move(loads)), bags_(step.gpus.size())
  {
    loads_.resize(bags_.size());
    ballast::ratio idle;
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      idle = std::max(idle, ballast::ratio{loads_[bag], step.speed_of(bag)});
    }
    search(0, idle);
  }

  [[nodiscard]] ballast::ratio value() const { return best_; }

 private:
  void search(std::size_t sample, ballast::ratio makespan)
  {
    if (makespan >= best_) { return; }
    if (sample == step_.costs.size()) {
      best_ = makespan;
      return;
    }
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      if (!ballast::partition_problem::splits(step_.lengths[sample], step_.gpus[bag])) { continue; }
      padded_bag const before = bags_[bag];
      bags_[bag].add(step_.costs[sample]);
      ballast::ratio const finish{loads_[bag] + bags_[bag].load(), step_.speed_of(bag)};
      search(sample + 1, std::max(makespan, finish));
      bags_[bag] = before;
    }
  }

  instance const& step_;
  std::vector<ballast::cost_units> loads_;
  std::vector<padded_bag> bags_;
  ballast::ratio best_{std::numeric_limits<std::int64_t>::max(), 1};
};

/// `expect_valid_plans` for policies that pad.
template <class Policy>
void expect_valid_padded_plans(Policy const& policy, std::uint64_t seed)
{
  static_assert(ballast::batching_of(Policy{}) == ballast::batching::padded);
  static_assert(ballast::restricts_plans(Policy{}));
  ballast::random_source random(seed);
  for (int trial = 0; trial < trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    instance const step = random_instance(random, 40, 9, 8);
    auto const plan = plan_instance(step, policy);
    ASSERT_TRUE(plan) << plan.error().message;
    std::vector<padded_bag> bags(step.gpus.size());
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      std::size_t const bag = to_index(plan->owner[sample]);
      ASSERT_LT(bag, bags.size());
      ASSERT_TRUE(ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag]));
      bags[bag].add(step.costs[sample]);
    }
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      ASSERT_EQ(plan->loads[bag], bags[bag].load());
    }
    ASSERT_EQ(plan->makespan, padded_makespan(step, plan->owner));
    ASSERT_LE(plan->lower_bound, plan->makespan);
    ASSERT_EQ(plan->digest(), plan_instance(step, policy)->digest());
  }
}

/// A policy called directly, with work that bags have before planning.
struct direct_plan {
  std::vector<ballast::bag_id> owner;
  std::vector<ballast::cost_units> loads;
  ballast::ratio proven;
};
template <class Policy>
direct_plan plan_directly(direct_problem const& problem, Policy const& policy,
                          std::vector<ballast::cost_units> starting_loads)
{
  direct_plan plan{std::vector(problem.step.costs.size(),
                               ballast::to_id<ballast::bag_id>(problem.step.gpus.size())),
                   std::move(starting_loads),
                   {}};
  ballast::workspace memory;
  plan.proven = run_policy(policy, problem.view(), plan.loads, plan.owner, memory);
  return plan;
}

/// Work that bags have before planning enters the loads, stays in them, and delays their batches.
template <class Policy>
void expect_padded_starting_loads_counted(Policy const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  for (int trial = 0; trial < trials_of(500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    direct_problem const problem(random_instance(random, 20, 6, 4));
    std::vector<ballast::cost_units> start(problem.step.gpus.size());
    for (auto& load : start) { load = random.between(0, 2000); }
    auto const plan = plan_directly(problem, policy, start);
    std::vector<padded_bag> bags(start.size());
    for (std::size_t sample = 0; sample < plan.owner.size(); ++sample) {
      ASSERT_LT(to_index(plan.owner[sample]), bags.size());
      bags[to_index(plan.owner[sample])].add(problem.step.costs[sample]);
    }
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      ASSERT_EQ(plan.loads[bag], start[bag] + bags[bag].load());
    }
    ASSERT_LE(plan.proven, padded_makespan(problem.step, plan.owner, start));
  }
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_PADDED_CHECKS_HPP
