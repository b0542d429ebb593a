// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instances.hpp"  // defines: ballast_test::{instance, policy_ref}

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>

namespace ballast_test {

/// An instance as policies see it, for tests of what lies behind the front door.
struct direct_problem {
  instance step;
  std::vector<std::int64_t> weights = {};
  std::vector<std::int64_t> capacities = {};
  std::vector<ballast::priced_sample> heaviest_first = {};
  std::vector<std::uint32_t> speeds = {};

  explicit direct_problem(instance of, std::vector<std::int64_t> weighing = {},
                          std::vector<std::int64_t> holding = {})
      : step(std::move(of)),
        weights(std::move(weighing)),
        capacities(std::move(holding)),
        heaviest_first(step.costs.size())
  {
    ballast::workspace memory;
    ballast::descending_order_into(heaviest_first, step.costs, memory);
    for (std::size_t bag = 0; bag < step.gpus.size(); ++bag) {
      speeds.push_back(step.speed_of(bag));
    }
  }

  [[nodiscard]] ballast::partition_problem view() const
  {
    return {step.costs, step.lengths, heaviest_first, step.gpus, speeds, {}, weights, capacities};
  }
};

/// A policy called directly, with work that bags have before planning.
struct direct_plan {
  std::vector<ballast::bag_id> owner;
  std::vector<ballast::cost_units> loads;
  ballast::ratio proven;
};

inline direct_plan plan_directly(ballast::partition_problem const& problem,
                                 policy_ref const& policy, std::vector<ballast::cost_units> starts)
{
  direct_plan plan{
      std::vector(problem.costs.size(), ballast::to_id<ballast::bag_id>(problem.gpus.size())),
      std::move(starts),
      {}};
  ballast::workspace memory;
  plan.proven = policy(problem, plan.loads, plan.owner, memory);
  return plan;
}
inline direct_plan plan_directly(direct_problem const& problem, policy_ref const& policy)
{
  ballast::partition_problem seen = problem.view();
  bool const pads_attention = policy.batches() == ballast::batching::attention_padded;
  if (pads_attention) { seen.attention = problem.step.padded; }
  auto starts = problem.step.before;
  starts.resize(problem.step.gpus.size());
  return plan_directly(seen, policy, std::move(starts));
}

}  // namespace ballast_test
