// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_GRID_ITEMS_HPP
#define BALLAST_PARTITION_GRID_DETAIL_GRID_ITEMS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// An item with all that a pass over the items looks at.
struct grid_item {
  cost_units cost;
  std::int64_t weight;
  std::uint32_t item;
  std::uint32_t count;
};

/// The items of one kind, heaviest first, and their slots.
struct kind_of_items {
  std::span<grid_item const> items;
  std::size_t first_slot;
  std::size_t end_slot;
  cost_units work;
};

/// The items of a problem by kind.
///
/// Complexity  O(n + slots); 24 bytes of scratch per item.
[[nodiscard]] inline std::span<kind_of_items const> items_by_kind(grid_problem const& problem,
                                                                  workspace::frame& scratch)
{
  std::size_t const kinds = std::size_t{problem.slots.back().kind} + 1;
  auto const items = scratch.take<grid_item>(problem.costs.size());
  auto const by_kind = scratch.take<kind_of_items>(kinds);
  auto const next = scratch.take<std::size_t>(kinds + 1);
  for (std::size_t& each : next) { each = 0; }
  for (std::uint32_t const kind : problem.kinds) { ++next[kind + 1]; }
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    by_kind[kind] = {items.subspan(next[kind], next[kind + 1]), problem.slots.size(), 0, 0};
    next[kind + 1] += next[kind];
  }
  for (std::size_t slot = problem.slots.size(); slot-- > 0;) {
    kind_of_items& own = by_kind[problem.slots[slot].kind];
    own.first_slot = slot;
    if (own.end_slot == 0) { own.end_slot = slot + 1; }
  }
  for (auto const [cost, sample] : problem.heaviest_first) {
    auto const item = static_cast<std::uint32_t>(to_index(sample));
    std::uint32_t const kind = problem.kinds[item];
    items[next[kind]++] = {cost, problem.weights[item], item, problem.counts[item]};
    by_kind[kind].work += cost;
  }
  return by_kind;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_GRID_ITEMS_HPP
