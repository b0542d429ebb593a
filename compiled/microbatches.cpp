// SPDX-License-Identifier: Apache-2.0
#define BALLAST_COMPILED  // other parts have these
#include <ballast/partition/detail/placement/plan_limited.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

#include "own.hpp"

#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/padded/pad_grid.hpp>

namespace ballast::inline v0::detail {

extern template result<void> plan_limited(partition_plan&, workspace&, sample_lengths const&,
                                          bag_layout const&, policy_ref<cost_units> const&,
                                          placement_limits const&);

template result<grid_plan> pad_cells(std::span<padded_lengths const>, bag_layout const&,
                                     microbatches const&, padded_ref const&, padded_ref const&,
                                     placement_limits const&);
template result<packing_plan> pad_bins(std::span<padded_lengths const>, std::int64_t,
                                       padded_ref const&, std::uint64_t);

}  // namespace ballast::inline v0::detail
