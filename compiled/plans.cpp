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

#define BALLAST_PLANS_BY(D)                                                                   \
  template void assign_vectors(cost_vector_problem<D> const&, std::span<cost_vector<D>>,      \
                               std::span<bag_id>, workspace&);                                \
  template ratio refine_plan(policy_ref<cost_vector<D>> const&, std::uint64_t, std::uint64_t, \
                             cost_vector_problem<D> const&, std::span<cost_vector<D>>,        \
                             std::span<bag_id>, workspace&);                                  \
  template result<void> plan_limited(cost_vector_plan<D>&, workspace&, sample_lengths const&, \
                                     bag_layout const&, policy_ref<cost_vector<D>> const&,    \
                                     placement_limits const&);

BALLAST_PLANS_BY(1)
BALLAST_PLANS_BY(2)
BALLAST_PLANS_BY(3)
BALLAST_PLANS_BY(4)

}  // namespace ballast::inline v0::detail
