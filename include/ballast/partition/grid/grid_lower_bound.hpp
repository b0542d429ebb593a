// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Of the samples of one kind, a sum over slots of their largest cells that no plan gets below.
///
/// Shapes      items: of the kind, heaviest first.
[[nodiscard]] inline cost_units slots_bound(grid_problem const& problem,
                                            std::span<std::uint32_t const> items, workspace& memory)
{
  if (items.empty()) { return 0; }
  auto const cost_of = [&problem](std::uint32_t item) { return problem.costs[item]; };
  auto const weight_of = [&problem](std::uint32_t item) {
    return static_cast<std::uint64_t>(problem.weights[item]);
  };
  auto const ranks = static_cast<cost_units>(problem.ranks());
  auto const share = [ranks](cost_units work) {
    return work / ranks + (work % ranks != 0 ? 1 : 0);
  };
  cost_units total = 0;
  for (std::uint32_t const item : items) { total += cost_of(item); }
  cost_units bound = std::max(cost_of(items.front()), share(total));

  std::int64_t most = 0;
  uint128 room = 0;  // of one slot
  for (std::int64_t const each : problem.most_weights) {
    most = std::max(most, each);
    room += static_cast<std::uint64_t>(each);
  }
  auto scratch = memory.open();
  std::span<std::uint32_t> const densest = scratch.take<std::uint32_t>(items.size());
  std::copy(items.begin(), items.end(), densest.begin());
  auto const denser = [&](std::uint32_t a, std::uint32_t b) {
    uint128 const left = uint128{static_cast<std::uint64_t>(cost_of(a))} * weight_of(b);
    uint128 const right = uint128{static_cast<std::uint64_t>(cost_of(b))} * weight_of(a);
    // Without weight, density is infinite.
    bool const weightless = (weight_of(a) == 0) != (weight_of(b) == 0);
    if (weightless) { return weight_of(a) == 0; }
    return left != right ? left > right : a < b;
  };
  auto const not_sparser = [&](std::uint32_t a, std::uint32_t b) {
    return uint128{static_cast<std::uint64_t>(cost_of(a))} * weight_of(b) >=
           uint128{static_cast<std::uint64_t>(cost_of(b))} * weight_of(a);
  };
  bool sorted = true;  // as it is where longer samples cost more for each token
  for (std::size_t place = 1; place < densest.size() && sorted; ++place) {
    sorted = weight_of(densest[place]) > 0 && not_sparser(densest[place - 1], densest[place]);
  }
  if (!sorted) { std::sort(densest.begin(), densest.end(), denser); }

  cost_units alone = 0;    // of samples that share no cell, the longest of each slot
  std::size_t heavy = 0;   // such samples so far
  std::size_t filled = 0;  // of `densest`, into the slots so far
  cost_units work = 0;
  uint128 weight = 0;
  uint128 slots_room = 0;
  for (std::uint32_t const item : items) {
    if (2 * uint128{weight_of(item)} <= static_cast<std::uint64_t>(most)) { continue; }
    if (heavy++ % problem.ranks() != 0) { continue; }
    alone += cost_of(item);
    slots_room += room;
    while (filled < densest.size() && weight + weight_of(densest[filled]) <= slots_room) {
      work += cost_of(densest[filled]);
      weight += weight_of(densest[filled++]);
    }
    cost_units part = 0;  // of the sample that the knapsack cuts, rounded up
    if (filled < densest.size()) {
      std::uint64_t const whole = weight_of(densest[filled]);
      part = static_cast<cost_units>(
          (uint128{static_cast<std::uint64_t>(cost_of(densest[filled]))} * (slots_room - weight) +
           whole - 1) /
          whole);
    }
    bound = std::max(bound, alone + share(std::max<cost_units>(total - work - part, 0)));
  }
  return bound;
}

/// With a sample in every cell, i slots hold at least i R samples, so that the longest of them is
/// at least the i R-th from the end.
[[nodiscard]] inline cost_units full_cells_bound(grid_problem const& problem)
{
  std::size_t const count = problem.heaviest_first.size();
  cost_units bound = count == 0 ? 0 : problem.heaviest_first.front().cost;
  for (std::size_t slots = 1; slots < problem.slots.size(); ++slots) {
    if (slots * problem.ranks() > count) { break; }
    bound += problem.heaviest_first[count - slots * problem.ranks()].cost;
  }
  return bound;
}

}  // namespace detail

/// A makespan that no plan of a grid gets below.
///
/// Where ranks meet once a step, that of one bag for each rank: `makespan_lower_bound`. Where they
/// meet in every microbatch, the sum over kinds of the largest of their longest sample, the mean,
/// and for any j, with cap W, c the costs, descending, of the samples heavier than W/2, and F(t) the
/// most work in t tokens (the fractional knapsack):
/// sum over i <= j of c[(i - 1) R + 1] + (total work - F(j R W)) / R.
/// No two such samples share a cell, so the j slots with the largest cells last at least the sum of
/// the c and hold at most F(j R W), and the others at least the mean of the rest. Where caps
/// differ, W is the largest, and j R W their sum times j. With a sample in every cell also c[1] +
/// sum over i = 2..K of c[n - (K - i + 1) R + 1], with c the costs of all.
///
/// Expects     a valid grid_problem.
/// Ensures     (1) no plan has a smaller makespan, with any number of slots or, where every cell
///                 needs a sample, with as many
/// Complexity  that of makespan_lower_bound; or O(n), and O(n log n) where costs per weight are not
///             in the order of costs.
[[nodiscard]] inline cost_units grid_lower_bound(grid_problem const& problem, workspace& memory)
{
  std::size_t const count = problem.costs.size();
  if (count == 0) { return 0; }
  auto scratch = memory.open();
  if (problem.meet == grid_meeting::step) {
    std::span<tokens> const lengths = scratch.take<tokens>(count);
    std::span<std::uint32_t> const gpus = scratch.take<std::uint32_t>(problem.ranks());
    std::fill(lengths.begin(), lengths.end(), 1);
    std::fill(gpus.begin(), gpus.end(), 1U);
    partition_problem const ranks{problem.costs, lengths, problem.heaviest_first, gpus, gpus};
    return makespan_lower_bound(ranks, memory).numerator;
  }
  std::uint32_t const kinds = problem.slots.back().kind + 1;
  std::span<std::uint32_t> const items = scratch.take<std::uint32_t>(count);
  cost_units bound = 0;
  for (std::uint32_t kind = 0; kind < kinds; ++kind) {
    std::size_t found = 0;
    for (priced_sample const each : problem.heaviest_first) {
      auto const item = static_cast<std::uint32_t>(to_index(each.sample));
      if (problem.kinds[item] == kind) { items[found++] = item; }
    }
    bound += detail::slots_bound(problem, items.first(found), memory);
  }
  bool const all_full = std::all_of(problem.slots.begin(), problem.slots.end(),
                                    [](grid_slot const& slot) { return slot.least >= 1; });
  return all_full ? std::max(bound, detail::full_cells_bound(problem)) : bound;
}

}  // namespace ballast::inline v0
