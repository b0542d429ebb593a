// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/counts/counted_exchanges.hpp>
#include <ballast/partition/detail/search/bag_completion.hpp>

#include <bit>

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

/// Makes a plan from nothing in which bags keep their numbers of samples and their capacities,
/// whatever its makespan: as plans of equal counts are made, with weights for costs and capacities
/// for speeds. Returns whether no bag is overrun.
///
/// Expects     every sample has a bag that it fits.
/// Ensures     (1) every bag holds as many samples as before, which fit it
/// Complexity  O(n (sizes + log n)), and the exchanges until `work` is spent.
inline bool fill_by_count(partition_problem const& problem, bags_with_room const& bags,
                          std::span<cost_units const> starting_loads, work_budget& work,
                          workspace& memory)
{
  auto scratch = memory.open();
  std::size_t const count = bags.loads().size();
  std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(count);
  std::fill(counts.begin(), counts.end(), 0);
  for (bag_id const bag : bags.owner()) { ++counts[to_index(bag)]; }

  // Capacities above what all samples weigh are none; the largest has to fit a speed.
  std::int64_t const all =
      std::reduce(problem.weights.begin(), problem.weights.end(), std::int64_t{0});
  std::int64_t largest = 0;
  for (std::int64_t const capacity : problem.capacities) {
    largest = std::max(largest, std::min(capacity, all));
  }
  auto const bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest)));
  int const lost = std::max(bits - std::numeric_limits<std::uint32_t>::digits, 0);
  std::span<std::uint32_t> const speeds = scratch.take<std::uint32_t>(count);
  for (std::size_t bag = 0; bag < count; ++bag) {
    std::int64_t const speed = std::min(problem.capacities[bag], all) >> lost;
    speeds[bag] = static_cast<std::uint32_t>(std::max<std::int64_t>(speed, 1));
  }
  std::span<priced_sample> const heaviest_first =
      scratch.take<priced_sample>(problem.weights.size());
  descending_order_into(heaviest_first, problem.weights, memory);
  partition_problem weighed = problem;
  weighed.costs = problem.weights;
  weighed.heaviest_first = heaviest_first;
  weighed.speeds = speeds;

  std::span<cost_units> const held = scratch.take<cost_units>(count);
  std::fill(held.begin(), held.end(), 0);
  ratio const full{std::int64_t{1} << lost, 1};
  counted_bags const members(weighed, counts, held, scratch);
  counted_exchanges plan(weighed, members, work, memory);
  swap_extremes(plan, full, memory);
  settle_latest(plan, full, scratch)();

  bags.clear(starting_loads);
  for (std::size_t bag = 0; bag < count; ++bag) {
    for (priced_sample const member : members[bag]) { bags.put(to_index(member.sample), bag); }
  }
  return !bags.any_overrun();
}

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
