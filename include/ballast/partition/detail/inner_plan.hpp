// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/partition_plan.hpp>

namespace ballast::inline v0::detail {

/// What a policy knows after it ran the policy whose plan it improves.
struct inner_plan {
  std::span<cost_units const> starts;  ///< the loads that bags had before
  ratio bound;                         ///< no plan has a makespan below it
};

/// Runs the inner policy of one that improves its plan; arrays live as long as the frame.
///
/// In, out     loads and owner become the inner policy's plan.
/// Ensures     (1) bound is the larger of the problem's lower bound and what the inner policy
///                 proved
template <partition_policy Inner>
[[nodiscard]] inner_plan run_inner_policy(Inner const& inner, partition_problem const& problem,
                                          std::span<cost_units> loads, std::span<bag_id> owner,
                                          workspace& memory, workspace::frame& scratch)
{
  std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
  std::copy(loads.begin(), loads.end(), starts.begin());
  partition_problem const bounded = with_lower_bound(problem, starts, memory);
  ratio const proven = run_policy(inner, bounded, loads, owner, memory);
  return {starts, std::max(proven, bounded.lower_bound)};
}

/// Runs the inner policy and longest_processing_time: a search goes on from the better of the two.
///
/// In, out     loads and owner become that plan, the inner policy's where both are as good.
/// Ensures     (1) as run_inner_policy
template <partition_policy Inner>
[[nodiscard]] inner_plan run_inner_policy_or_lpt(Inner const& inner,
                                                 partition_problem const& problem,
                                                 std::span<cost_units> loads,
                                                 std::span<bag_id> owner, workspace& memory,
                                                 workspace::frame& scratch)
{
  inner_plan plan = run_inner_policy(inner, problem, loads, owner, memory, scratch);
  if constexpr (!std::same_as<Inner, longest_processing_time>) {
    if (makespan_of(loads, problem.speeds) <= plan.bound) { return plan; }
    auto frame = memory.open();
    std::span<cost_units> const greedy_loads = frame.take<cost_units>(loads.size());
    std::span<bag_id> const greedy_owner = frame.take<bag_id>(owner.size());
    std::copy(plan.starts.begin(), plan.starts.end(), greedy_loads.begin());
    std::fill(greedy_owner.begin(), greedy_owner.end(), to_id<bag_id>(loads.size()));
    (void)run_policy(longest_processing_time{}, problem, greedy_loads, greedy_owner, memory);
    if (makespan_of(greedy_loads, problem.speeds) < makespan_of(loads, problem.speeds)) {
      std::copy(greedy_loads.begin(), greedy_loads.end(), loads.begin());
      std::copy(greedy_owner.begin(), greedy_owner.end(), owner.begin());
    }
  }
  return plan;
}

}  // namespace ballast::inline v0::detail
