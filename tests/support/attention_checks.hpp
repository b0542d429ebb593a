// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "policy_checks.hpp"  // defines: ballast_test::{direct_problem, expect_valid_plan}
#include "test.hpp"
#include "trials.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition.hpp>

namespace ballast_test {

/// A random step whose samples have attention parts: of costs l + l^2 / 8, or any part of any cost.
struct attention_instance {
  instance step;
  std::vector<ballast::cost_units> attention = {};

  attention_instance(ballast::random_source& random, std::size_t most_samples,
                     std::size_t most_bags, std::uint32_t largest_bag)
      : step(random_instance(random, most_samples, most_bags, largest_bag))
  {
    bool const by_length = random.below(2) == 0;
    ballast::tokens const longest = random.below(2) == 0 ? 12 : 300;
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      if (by_length) {
        if (step.lengths[sample] > 0) { step.lengths[sample] += random.between(0, longest); }
        ballast::tokens const length = step.lengths[sample];
        attention.push_back(length * length / 8);
        step.costs[sample] = length + attention.back();
      } else {
        attention.push_back(random.between(0, step.costs[sample]));
      }
    }
  }

  /// The cost model of samples by number.
  struct model {
    attention_instance const& of;
    ballast::cost_units operator()(numbered n) const { return of.step.costs[n.sample]; }
    [[nodiscard]] ballast::cost_units attention_part(numbered n) const
    {
      return of.attention[n.sample];
    }
  };

  /// Plans through the front door.
  [[nodiscard]] auto plan(policy_ref const& policy) const
  {
    return ballast::partition(number_samples(step), consecutive_bags(step.gpus, step.gpu_speeds),
                              policy, model{*this},
                              [this](numbered n) { return step.lengths[n.sample]; });
  }

  /// What one bag's samples cost: written as the definition is.
  [[nodiscard]] ballast::cost_units load_of(std::vector<std::size_t> const& samples) const
  {
    ballast::cost_units sum = 0;
    ballast::cost_units largest = 0;
    for (std::size_t const sample : samples) {
      sum += step.costs[sample] - attention[sample];
      largest = std::max(largest, attention[sample]);
    }
    return sum + static_cast<ballast::cost_units>(samples.size()) * largest;
  }
};

/// What policies see of such a step, with work that bags have to start with.
struct attention_problem {
  attention_instance of;
  direct_problem problem;
  std::vector<ballast::cost_units> starts;

  explicit attention_problem(attention_instance instance, bool with_starts = false)
      : of(std::move(instance)), problem(of.step), starts(of.step.gpus.size(), 0)
  {
    for (std::size_t bag = 0; with_starts && bag < starts.size(); ++bag) {
      starts[bag] = static_cast<ballast::cost_units>((bag * 37 + of.step.costs.size() * 11) % 200);
    }
  }

  [[nodiscard]] ballast::ratio makespan_of(std::vector<ballast::bag_id> const& owner) const
  {
    return of.step.makespan_of(batch_loads(of.step, assignment_of(owner), of.attention, starts));
  }
  [[nodiscard]] ballast::ratio optimum() const
  {
    return batch_optimum(of.step, of.attention, starts);
  }
  [[nodiscard]] direct_plan run(policy_ref const& policy) const
  {
    ballast::partition_problem seen = problem.view();
    seen.attention = of.attention;
    return plan_directly(seen, policy, starts);
  }
};

/// Every sample has a bag that it fits, loads are what the definition makes them, also with work
/// that bags have to start with, and nothing that is proven is above the plan.
template <class Policy>
void expect_valid_attention_plans(Policy const& policy, std::uint64_t seed)
{
  static_assert(ballast::batching_of(Policy{}) == ballast::batching::attention_padded);
  static_assert(ballast::restricts_plans(Policy{}));
  ballast::random_source random(seed);
  for (int trial = 0; trial < trials_of(300); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    attention_problem const problem(attention_instance(random, 40, 9, 8), trial % 2 == 1);
    auto const plan = problem.of.plan(policy);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_NO_FATAL_FAILURE(expect_valid_plan(problem.of.step, *plan, problem.of.attention));
    ASSERT_EQ(plan->attention, problem.of.attention);
    ASSERT_EQ(plan->digest(), problem.of.plan(policy)->digest());
    auto const direct = problem.run(policy);
    ASSERT_EQ(direct.loads, batch_loads(problem.of.step, assignment_of(direct.owner),
                                        problem.of.attention, problem.starts));
    ASSERT_LE(direct.proven, problem.makespan_of(direct.owner));
  }
}

}  // namespace ballast_test
