// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_INNER_PLAN_HPP
#define BALLAST_PARTITION_DETAIL_INNER_PLAN_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/lower_bound.hpp>

#include <algorithm>
#include <span>

namespace ballast::inline v0::detail {

/// What a policy knows after it ran the policy whose plan it improves.
struct inner_plan {
  std::span<cost_units const> starts;  ///< the loads that bags had before
  ratio bound;                         ///< no plan has a makespan below it
};

/// Runs the inner policy of one that improves its plan; arrays live as long as the frame.
///
/// In, out     loads and owner become the inner policy's plan.
/// Ensures     (1) bound is the larger of the problem's lower bound and what the inner policy proved
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_INNER_PLAN_HPP
