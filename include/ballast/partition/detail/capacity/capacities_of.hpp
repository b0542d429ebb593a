// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITIES_OF_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITIES_OF_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// What every bag can hold of a weight that is limited per GPU or per bag; the frame keeps it.
[[nodiscard]] inline std::span<std::int64_t const> capacities_of(
    bag_layout const& bags, partition_constraints const& constraints, workspace::frame& scratch)
{
  std::span<std::int64_t> const capacities = scratch.take<std::int64_t>(bags.size());
  for (std::size_t bag = 0; bag < capacities.size(); ++bag) {
    std::int64_t const gpus = bags.sizes()[bag];
    bool const endless = constraints.most_per_gpu > std::numeric_limits<std::int64_t>::max() / gpus;
    capacities[bag] =
        endless ? std::numeric_limits<std::int64_t>::max() : constraints.most_per_gpu * gpus;
    if (!constraints.bag_capacities.empty()) {
      capacities[bag] = std::min(capacities[bag], constraints.bag_capacities[bag]);
    }
  }
  return capacities;
}

/// Which bags hold more than their capacities: samples that a soft cap lets stand alone.
///
/// Shapes      weights[n]
template <class Plan>
void list_bags_above_cap(Plan& plan, std::span<std::int64_t const> weights, bag_layout const& bags,
                         partition_constraints const& constraints, workspace& memory)
{
  plan.above_cap.clear();
  if (!constraints.cap_is_soft) { return; }
  auto scratch = memory.open();
  auto const capacities = capacities_of(bags, constraints, scratch);
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    std::int64_t held = 0;
    for (sample_id const sample : plan.samples[to_id<bag_id>(bag)]) {
      held += weights[to_index(sample)];
    }
    if (held > capacities[bag]) { plan.above_cap.push_back(to_id<bag_id>(bag)); }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITIES_OF_HPP
