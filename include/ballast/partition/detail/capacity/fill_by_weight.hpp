// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_WEIGHT_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_WEIGHT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Makes a plan from nothing in which weight is even, whatever its makespan: heaviest weight first,
/// each sample to the bag with most room, of equal ones the first.
///
/// Where capacities leave little to spare and what samples cost does not follow from what they
/// weigh, this finds room for all where plans made by cost do not; swaps then even out the work.
///
/// Shapes      by_weight[n]: `descending_order_into` of the weights.
/// In, out     where a sample finds no room, it and those after it have no bag.
/// Ensures     (1) no bag gets above its capacity
///             (2) it returns whether all samples found room
/// Complexity  O(n log m), and O(m) for each sample that does not fit the bag with most room.
inline bool fill_by_weight(partition_problem const& problem, bags_with_room const& bags,
                           std::span<cost_units const> starting_loads,
                           std::span<priced_sample const> by_weight, workspace& memory)
{
  struct open_room {
    std::int64_t room;
    std::uint32_t bag;
  };
  auto const less_room = [](open_room const& a, open_room const& b) {
    return a.room != b.room ? a.room < b.room : a.bag > b.bag;
  };
  auto scratch = memory.open();
  bags.clear(starting_loads);
  std::span<open_room> const heap = scratch.take<open_room>(starting_loads.size());
  for (std::size_t bag = 0; bag < heap.size(); ++bag) {
    heap[bag] = {problem.capacities[bag], static_cast<std::uint32_t>(bag)};
  }
  std::make_heap(heap.begin(), heap.end(), less_room);
  for (priced_sample const& each : by_weight) {
    std::size_t const sample = to_index(each.sample);
    if (problem.fits(sample, heap.front().bag)) {
      if (heap.front().room < each.cost) { return false; }
      std::pop_heap(heap.begin(), heap.end(), less_room);
      bags.put(sample, heap.back().bag);
      heap.back().room -= each.cost;
      std::push_heap(heap.begin(), heap.end(), less_room);
      continue;
    }
    open_room* best = nullptr;
    for (open_room& one : heap) {
      bool const takes = one.room >= each.cost && problem.fits(sample, one.bag);
      if (takes && (best == nullptr || less_room(*best, one))) { best = &one; }
    }
    if (best == nullptr) { return false; }
    bags.put(sample, best->bag);
    best->room -= each.cost;
    std::make_heap(heap.begin(), heap.end(), less_room);
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_WEIGHT_HPP
