// SPDX-License-Identifier: Apache-2.0
#define BALLAST_COMPILED  // other parts have these
#include <ballast/partition/detail/placement/plan_search.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include "own.hpp"

#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/partition.hpp>

namespace ballast::inline v0::detail {

template result<void> plan_limited(partition_plan&, workspace&, sample_lengths const&,
                                   bag_layout const&, policy_ref<cost_units> const&,
                                   placement_limits const&);

}  // namespace ballast::inline v0::detail
