// SPDX-License-Identifier: Apache-2.0
#define BALLAST_COMPILED  // other parts have these
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include "own.hpp"

#include <ballast/partition/detail/placement/plan_search.hpp>

namespace ballast::inline v0::detail {

template bool try_all_plans(plan_state&, least_makespan&, work_budget&, workspace&);
template bool try_all_plans(plan_state&, level_finish&, work_budget&, workspace&);

}  // namespace ballast::inline v0::detail
