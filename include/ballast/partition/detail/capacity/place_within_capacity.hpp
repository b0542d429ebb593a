// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_PLACE_WITHIN_CAPACITY_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_PLACE_WITHIN_CAPACITY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/search/bag_completion.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Takes out of every overrun bag what is above its capacity and places that again, heaviest weight
/// first, where it finishes earliest. Returns whether all of it found room.
///
/// Samples leave in order of cost per weight: a bag gives away the weight that it has too much with
/// as little work as possible, so the plan stays nearly as even as it was.
///
/// Complexity  O(n log n + k m) where k samples leave.
inline bool shed_overrun(partition_problem const& problem, bags_with_room const& bags,
                         std::span<bag_id const> owner, workspace& memory)
{
  auto scratch = memory.open();
  std::span<std::uint32_t> members = scratch.take<std::uint32_t>(owner.size());
  std::size_t count = 0;
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    if (problem.weights[sample] > 0 && bags.is_overrun(to_index(owner[sample]))) {
      members[count++] = static_cast<std::uint32_t>(sample);
    }
  }
  auto const per_weight = [&problem](std::uint32_t a, std::uint32_t b) {  // cost of a, weight of b
    return uint128{static_cast<std::uint64_t>(problem.costs[a])} *
           static_cast<std::uint64_t>(problem.weights[b]);
  };
  std::sort(members.data(), members.data() + count, [&](std::uint32_t a, std::uint32_t b) {
    return precedes(owner[a], owner[b], per_weight(a, b), per_weight(b, a), a, b);
  });

  std::size_t shed = 0;
  for (std::size_t place = 0; place < count;) {
    std::size_t const bag = to_index(owner[members[place]]);
    std::size_t const first_shed = shed;
    while (bags.is_overrun(bag)) {
      members[shed] = members[place++];
      bags.remove(members[shed++]);
    }
    for (std::size_t back = shed; back-- > first_shed;) {  // the last one may have been enough
      std::int64_t const room = problem.capacities[bag] - bags.held()[bag];
      if (problem.weights[members[back]] <= room) {
        bags.put(members[back], bag);
        members[back] = members[--shed];
      }
    }
    while (place < count && to_index(owner[members[place]]) == bag) { ++place; }
  }
  members = members.first(shed);
  std::sort(members.begin(), members.end(), [&](std::uint32_t a, std::uint32_t b) {
    return precedes(problem.weights[b], problem.weights[a], problem.costs[b], problem.costs[a], a,
                    b);
  });
  return std::all_of(members.begin(), members.end(), [&](std::uint32_t sample) {
    return bags.place(sample, room_choice::earliest);
  });
}

/// Searches all plans for one that keeps to the capacities, whatever its makespan, until it finds
/// one or `nodes` is spent. Returns whether it found one, and then makes that plan.
///
/// Shapes      by_weight[n]: `descending_order_into` of the weights.
inline bool search_all_fillings(partition_problem const& problem, bags_with_room const& bags,
                                std::span<cost_units const> starting_loads,
                                std::span<priced_sample const> by_weight, work_budget& nodes,
                                workspace& memory)
{
  auto scratch = memory.open();
  auto const weightless = std::partition_point(by_weight.begin(), by_weight.end(),
                                               [](priced_sample each) { return each.cost > 0; });
  auto const heavy = by_weight.first(static_cast<std::size_t>(weightless - by_weight.begin()));
  std::int64_t const total =
      std::reduce(problem.weights.begin(), problem.weights.end(), std::int64_t{0});
  std::uint32_t const largest = *std::max_element(problem.gpus.begin(), problem.gpus.end());
  bool const all_fit =
      std::all_of(problem.lengths.begin(), problem.lengths.end(),
                  [largest](tokens length) { return partition_problem::splits(length, largest); });
  std::span<open_bag> const open = scratch.take<open_bag>(problem.capacities.size());
  uint128 rooms = 0;
  for (std::size_t bag = 0; bag < open.size(); ++bag) {
    open[bag] = {std::min(problem.capacities[bag], total), all_fit ? 1 : problem.gpus[bag],
                 static_cast<std::uint32_t>(bag)};
    rooms += static_cast<std::uint64_t>(open[bag].room);
  }
  if (rooms >= uint128{static_cast<std::uint64_t>(no_cost)}) { return false; }  // not its range
  std::sort(open.begin(), open.end(), [](open_bag a, open_bag b) {
    return precedes(b.gpus, a.gpus, a.room, b.room, a.index, b.index);
  });
  bag_completion fill(heavy.size(), problem.lengths, open.size(), scratch);
  if (fill(heavy, open, nodes) != completion::found) { return false; }

  bags.clear(starting_loads);
  for (std::size_t place = 0; place < heavy.size(); ++place) {
    bags.put(to_index(heavy[place].sample), open[fill.owners()[place]].index);
  }
  return bags.fill(by_weight.subspan(heavy.size()), room_choice::earliest);
}

/// Makes a plan that keeps to the capacities from one that does not: by as few moves as that takes,
/// or else from nothing, by work, by weight, and at last by a search of all plans. Returns whether
/// it did.
///
/// In, out     where it did not, samples without room have no bag.
/// Ensures     (1) if it returns false, nodes are left and bags may still be looked at, there is no
///                 such plan
/// Complexity  O(n (m + log n) + nodes), as far as bags may be looked at
inline bool place_within_capacity(partition_problem const& problem, bags_with_room const& bags,
                                  std::span<cost_units const> starting_loads,
                                  std::span<bag_id const> owner, work_budget& nodes,
                                  workspace& memory)
{
  if (shed_overrun(problem, bags, owner, memory)) { return true; }
  auto scratch = memory.open();
  std::span<priced_sample> const by_weight = scratch.take<priced_sample>(problem.weights.size());
  descending_order_into(by_weight, problem.weights, memory);
  auto const fills = [&](std::span<priced_sample const> order, room_choice choice) {
    bags.clear(starting_loads);
    return bags.fill(order, choice);
  };
  return fills(problem.heaviest_first, room_choice::earliest) ||
         fills(by_weight, room_choice::earliest) || fills(by_weight, room_choice::tightest) ||
         search_all_fillings(problem, bags, starting_loads, by_weight, nodes, memory);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_PLACE_WITHIN_CAPACITY_HPP
