// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_DENSITY_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_DENSITY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// How much more a bag can do by some time, and hold.
struct bag_rooms {
  cost_units load;
  std::int64_t weight;
  std::uint32_t index;

  /// Whether `a` has less load per weight to give, or as much and less of it. A bag that is full in
  /// both has none to give, where 0 / 0 would be as much as any.
  [[nodiscard]] static constexpr bool sparser(bag_rooms const& a, bag_rooms const& b) noexcept
  {
    auto const cross = [](bag_rooms const& x, bag_rooms const& y) {
      std::int64_t const weight = y.load == 0 && y.weight == 0 ? 1 : y.weight;
      return uint128{static_cast<std::uint64_t>(x.load)} * static_cast<std::uint64_t>(weight);
    };
    return precedes(cross(a, b), cross(b, a), a.weight, b.weight, b.index, a.index);
  }
};

/// Makes a plan from nothing in which both work and weight are even: samples with most work per
/// weight first, each to the bag that can still do most work per weight that it can still hold.
///
/// So a bag of long samples, or a slow one, gets no other long ones: its last samples are those of
/// least work per weight, and with these it holds most. Where GPUs differ in speed but not in
/// memory, the fast bags get what is expensive.
///
/// Expects     every sample finds a bag that it fits; `finish` is when bags should be done.
/// In, out     where a sample finds no room, it and those after it have no bag.
/// Ensures     (1) no bag gets above its capacity
///             (2) it returns whether all samples found room
/// Complexity  O(n m), as far as bags may be looked at
inline bool fill_by_density(partition_problem const& problem, bags_with_room const& bags,
                            std::span<cost_units const> starting_loads, ratio finish,
                            cheapest_cover const& cover, workspace& memory)
{
  auto scratch = memory.open();
  bags.clear(starting_loads);
  std::span<bag_rooms> const heap = scratch.take<bag_rooms>(starting_loads.size());
  for (std::size_t bag = 0; bag < heap.size(); ++bag) {
    cost_units const load = work_until(finish, problem.speeds[bag]) - starting_loads[bag];
    heap[bag] = {std::max(load, cost_units{0}), problem.capacities[bag],
                 static_cast<std::uint32_t>(bag)};
  }
  std::make_heap(heap.begin(), heap.end(), bag_rooms::sparser);
  auto last = heap.end();  // bags from here on were too full for a sample, and wait
  for (std::size_t place = cover.order().size(); place-- > 0;) {
    std::uint32_t const sample = cover.order()[place];
    cost_units const cost = problem.costs[sample];
    std::int64_t const weight = problem.weights[sample];
    auto const is_too_full = [&](bag_rooms const& bag) {
      return bag.load < cost || bag.weight < weight || !problem.fits(sample, bag.index);
    };
    if (!bags.look_at(static_cast<std::size_t>(heap.end() - last))) { return false; }
    for (auto waiting = last; waiting != heap.end(); ++waiting) {
      if (is_too_full(*waiting)) { continue; }
      std::swap(*last, *waiting);
      std::push_heap(heap.begin(), ++last, bag_rooms::sparser);
    }
    while (last != heap.begin() && is_too_full(heap.front())) {
      std::pop_heap(heap.begin(), last--, bag_rooms::sparser);
    }
    if (last != heap.begin()) {
      std::pop_heap(heap.begin(), last, bag_rooms::sparser);
      bag_rooms& chosen = *(last - 1);
      bags.put(sample, chosen.index);
      chosen.load -= cost;
      chosen.weight -= weight;
      std::push_heap(heap.begin(), last, bag_rooms::sparser);
      continue;
    }
    if (!bags.place(sample, room_choice::earliest)) { return false; }
    bag_rooms& late = *std::find_if(heap.begin(), heap.end(), [&](bag_rooms const& bag) {
      return bag.index == to_index(bags.owner()[sample]);
    });
    late.load = std::max(late.load - cost, cost_units{0});
    late.weight -= weight;
  }
  for (std::size_t sample = 0; sample < problem.weights.size(); ++sample) {
    if (problem.weights[sample] == 0 && !bags.place(sample, room_choice::earliest)) {
      return false;
    }
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_DENSITY_HPP
