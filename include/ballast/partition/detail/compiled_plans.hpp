// SPDX-License-Identifier: Apache-2.0
#pragma once

// IWYU pragma: begin_keep

#include <ballast/core.hpp>
#include <ballast/partition/detail/placement/plan_limited.hpp>
#include <ballast/partition/greedy_knapsack.hpp>

// IWYU pragma: end_keep

namespace ballast::inline v0::detail {

/// Where BALLAST_COMPILED is defined these are not compiled, but found in ballast::compiled, which
/// CMakeLists.txt makes of this file, without `extern`.
extern template result<void> plan_limited(partition_plan&, workspace&, sample_lengths const&,
                                          bag_layout const&, policy_ref const&,
                                          placement_limits const&);
extern template result<void> plan_limited(cost_vector_plan<2>&, workspace&, sample_lengths const&,
                                          bag_layout const&, refine<> const&,
                                          placement_limits const&);

}  // namespace ballast::inline v0::detail

namespace ballast::inline v0 {

extern template ratio run_policy(refine<> const&, partition_problem const&, std::span<cost_units>,
                                 std::span<bag_id>, workspace&);
extern template ratio run_policy(longest_processing_time const&, partition_problem const&,
                                 std::span<cost_units>, std::span<bag_id>, workspace&);
extern template ratio run_policy(greedy_knapsack const&, partition_problem const&,
                                 std::span<cost_units>, std::span<bag_id>, workspace&);

}  // namespace ballast::inline v0
