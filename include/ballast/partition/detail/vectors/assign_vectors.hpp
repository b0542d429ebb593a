// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_ASSIGN_VECTORS_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_ASSIGN_VECTORS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>
#include <ballast/partition/detail/vectors/lightest_vectors.hpp>
#include <ballast/partition/detail/vectors/place_vectors_within_capacity.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// What `longest_processing_time` does by several quantities.
template <std::size_t D>
void assign_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                    std::span<bag_id> owner, workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_units> const largest = scratch.take<cost_units>(owner.size());
  std::transform(
      problem.costs.begin(), problem.costs.end(), largest.begin(),
      [](cost_vector<D> const& cost) { return *std::max_element(cost.begin(), cost.end()); });
  std::span<priced_sample> const order = scratch.take<priced_sample>(owner.size());
  descending_order_into(order, largest, memory);
  auto const put = [&](std::size_t sample, std::size_t bag) {
    owner[sample] = to_id<bag_id>(bag);
    for (std::size_t d = 0; d < D; ++d) { loads[bag][d] += problem.costs[sample][d]; }
  };

  if (problem.one_speed() && problem.any_bag_is_open()) {
    lightest_vectors<D> bags(loads, scratch);
    for (priced_sample const each : order) {
      std::size_t const sample = to_index(each.sample);
      std::size_t const bag = bags.lightest(problem.costs[sample]);
      bags.add(bag, problem.costs[sample]);
      put(sample, bag);
    }
    return;
  }
  std::span<cost_vector<D>> const starts = scratch.take<cost_vector<D>>(problem.capacities.size());
  std::copy_n(loads.begin(), starts.size(), starts.begin());
  earliest_vectors<D> bags(problem, loads, scratch);
  for (priced_sample const each : order) {
    std::size_t const sample = to_index(each.sample);
    std::size_t const bag = bags.earliest(sample);
    if (bag == loads.size()) {
      static_cast<void>(place_vectors_within_capacity<D>(problem, starts, loads, owner, memory));
      return;
    }
    bags.add(sample, bag);
    put(sample, bag);
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_ASSIGN_VECTORS_HPP
