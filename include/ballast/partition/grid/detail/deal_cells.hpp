// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_DEAL_CELLS_HPP
#define BALLAST_PARTITION_GRID_DETAIL_DEAL_CELLS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/detail/fill_to_height.hpp>
#include <ballast/partition/grid/detail/grid_cells.hpp>
#include <ballast/partition/grid/detail/grid_items.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// The most samples that each cell of a kind gets, so that they add up to all samples where slots
/// ask for certain counts: full steps, dealt from the first cell on, or from the largest cap on, and
/// there, where any number of steps will do, in proportion to caps.
inline void deal_quotas(grid_problem const& problem, kind_of_items const& kind, bool by_cap,
                        std::span<std::uint32_t const> order, std::span<std::uint32_t> quotas)
{
  grid_slot const& slot = problem.slots[kind.first_slot];
  if (slot.grows() || slot.least == slot.most ||
      (slot.least == 1 && slot.step == 1 && slot.most > 2)) {
    std::fill(quotas.begin(), quotas.end(), slot.most);
    return;
  }
  std::size_t samples = 0;
  for (grid_item const& item : kind.items) { samples += item.count; }
  std::size_t const steps = samples / slot.step;
  auto const& caps = problem.most_weights;
  uint128 room = 0;
  for (std::int64_t const cap : caps) { room += static_cast<std::uint64_t>(cap); }
  bool const in_proportion = by_cap && slot.step > 1 && slot.least == 0 && room > 0;
  std::size_t const slots = quotas.size() / caps.size();
  std::size_t rest = steps;
  for (std::size_t cell = 0; cell < quotas.size(); ++cell) {
    std::size_t own = steps / quotas.size();
    if (in_proportion) {
      auto const cap = static_cast<std::uint64_t>(caps[cell % caps.size()]);
      own = static_cast<std::size_t>(uint128{steps} * cap / (room * slots));
    }
    quotas[cell] = static_cast<std::uint32_t>(own * slot.step);
    rest -= own;
  }
  for (std::size_t place = 0; rest > 0; place = (place + 1) % quotas.size(), --rest) {
    quotas[order[place]] += slot.step;
  }
}

/// Deals the items of a kind to all its cells at once: heaviest first, each to the emptiest cell
/// that has room for it. Where caps are the same, the cells then go to slots by their loads, so
/// that a slot's cells are of nearly one height.
///
/// Returns     whether all items have a cell; where items lack room in more cells than a few for
///             each item and cell, it gives up
/// Expects     no slot of the kind holds anything
/// Complexity  O((n + cells) log cells)
[[nodiscard]] inline bool deal_cells(grid_cells& cells, kind_of_items const& kind, bool by_cap,
                                     workspace& memory)
{
  std::size_t const ranks = cells.problem.ranks();
  std::size_t const first = kind.first_slot * ranks;
  std::size_t const count = kind.end_slot * ranks - first;
  auto scratch = memory.open();
  auto const quotas = scratch.take<std::uint32_t>(count);
  auto const all = scratch.take<filling_cell>(count);
  auto const aside = scratch.take<filling_cell>(count);
  auto const order = scratch.take<std::uint32_t>(count);
  auto const& caps = cells.problem.most_weights;
  std::iota(order.begin(), order.end(), 0U);
  if (by_cap) {
    std::sort(order.begin(), order.end(), [&caps, ranks](std::uint32_t a, std::uint32_t b) {
      return caps[a % ranks] != caps[b % ranks] ? caps[a % ranks] > caps[b % ranks] : a < b;
    });
  }
  deal_quotas(cells.problem, kind, by_cap, order, quotas);
  for (std::size_t cell = 0; cell < count; ++cell) {
    all[cell] = {0, static_cast<std::uint32_t>(cell)};
  }
  auto const later = [](filling_cell a, filling_cell b) { return b < a; };
  auto heap = all;
  work_budget looks(
      std::max<std::uint64_t>(std::uint64_t{1} << 22, 8 * (kind.items.size() + count)));
  for (grid_item const& item : kind.items) {
    std::size_t refused = 0;
    while (!heap.empty()) {
      filling_cell const top = heap.front();
      if (cells.has_room(item.item, first + top.rank, quotas[top.rank])) {
        cells.put(item.item, first + top.rank);
        replace_front(heap, {top.load + item.cost, top.rank});
        break;
      }
      if (cells.counts[first + top.rank] < quotas[top.rank]) { aside[refused++] = top; }
      std::pop_heap(heap.begin(), heap.end(), later);
      heap = heap.first(heap.size() - 1);
    }
    looks.spend(refused);
    if (heap.empty() || looks.spent()) { return false; }
    for (std::size_t each = 0; each < refused; ++each) {
      heap = all.first(heap.size() + 1);
      heap.back() = aside[each];
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }

  if (std::any_of(caps.begin(), caps.end(), [&](std::int64_t cap) { return cap != caps[0]; })) {
    return true;
  }
  for (std::size_t cell = 0; cell < count; ++cell) {
    all[cell] = {-cells.loads[first + cell], static_cast<std::uint32_t>(cell)};
  }
  std::sort(all.begin(), all.end());
  for (std::size_t place = 0; place < count; ++place) {
    quotas[all[place].rank] = static_cast<std::uint32_t>(place);
  }
  for (grid_item const& item : kind.items) {
    cells.move(item.item, first + quotas[cells.cell_of(item.item) - first]);
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_DEAL_CELLS_HPP
