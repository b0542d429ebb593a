// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_ATTENTION_CHECKS_HPP
#define BALLAST_TESTS_SUPPORT_ATTENTION_CHECKS_HPP

#include "direct_problem.hpp"  // defines: ballast_test::direct_problem
#include "instances.hpp"       // defines: ballast_test::{random_instance, number_samples}
#include "trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

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
  template <class Policy>
  [[nodiscard]] auto plan(Policy const& policy) const
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

  [[nodiscard]] std::vector<ballast::cost_units> loads_of(
      std::vector<ballast::bag_id> const& owner) const
  {
    std::vector<std::vector<std::size_t>> bags(step.gpus.size());
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      bags.at(to_index(owner[sample])).push_back(sample);
    }
    std::vector<ballast::cost_units> loads;
    for (auto const& bag : bags) { loads.push_back(load_of(bag)); }
    return loads;
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

  [[nodiscard]] ballast::partition_problem view() const
  {
    ballast::partition_problem seen = problem.view();
    seen.attention = of.attention;
    return seen;
  }

  [[nodiscard]] ballast::ratio makespan_of(std::vector<ballast::bag_id> const& owner) const
  {
    auto const loads = of.loads_of(owner);
    ballast::ratio makespan;
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      makespan =
          std::max(makespan, ballast::ratio{starts[bag] + loads[bag], of.step.speed_of(bag)});
    }
    return makespan;
  }

  /// The least makespan over all m^n owners.
  [[nodiscard]] ballast::ratio optimum() const
  {
    std::vector<ballast::bag_id> owner(of.step.costs.size());
    ballast::ratio best{std::numeric_limits<std::int64_t>::max(), 1};
    try_all(owner, 0, best);
    return best;
  }

  struct outcome {
    std::vector<ballast::bag_id> owner;
    std::vector<ballast::cost_units> loads;
    ballast::ratio proven;
  };
  template <class Policy>
  [[nodiscard]] outcome run(Policy const& policy) const
  {
    outcome plan{std::vector(of.step.costs.size(), ballast::to_id<ballast::bag_id>(starts.size())),
                 starts,
                 {}};
    ballast::workspace memory;
    plan.proven = run_policy(policy, view(), plan.loads, plan.owner, memory);
    return plan;
  }

 private:
  void try_all(std::vector<ballast::bag_id>& owner, std::size_t sample, ballast::ratio& best) const
  {
    if (sample == owner.size()) {
      best = std::min(best, makespan_of(owner));
      return;
    }
    for (std::size_t bag = 0; bag < starts.size(); ++bag) {
      if (!ballast::partition_problem::splits(of.step.lengths[sample], of.step.gpus[bag])) {
        continue;
      }
      owner[sample] = ballast::to_id<ballast::bag_id>(bag);
      try_all(owner, sample + 1, best);
    }
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
    instance const& step = problem.of.step;
    auto const plan = problem.of.plan(policy);
    ASSERT_TRUE(plan) << plan.error().message;
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      ASSERT_TRUE(ballast::partition_problem::splits(step.lengths[sample],
                                                     step.gpus[to_index(plan->owner[sample])]));
    }
    ASSERT_EQ(plan->loads, problem.of.loads_of(plan->owner));
    ASSERT_EQ(plan->attention, problem.of.attention);
    ASSERT_LE(plan->lower_bound, plan->makespan);
    ASSERT_EQ(plan->digest(), problem.of.plan(policy)->digest());

    auto const direct = problem.run(policy);
    auto loads = problem.of.loads_of(direct.owner);
    for (std::size_t bag = 0; bag < loads.size(); ++bag) { loads[bag] += problem.starts[bag]; }
    ASSERT_EQ(direct.loads, loads);
    ASSERT_LE(direct.proven, problem.makespan_of(direct.owner));
  }
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_ATTENTION_CHECKS_HPP
