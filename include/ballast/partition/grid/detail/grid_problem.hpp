// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/grid/grid_plan.hpp>

namespace ballast::inline v0::detail {

/// What the cells of a slot hold: samples of one kind, from `least` to `most` of them and a
/// multiple of `step`.
struct grid_slot {
  std::uint32_t kind = 0;
  std::uint32_t least = 0;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t step = 1;

  [[nodiscard]] constexpr bool takes(std::uint32_t samples) const noexcept
  {
    return samples >= least && samples <= most && samples % step == 0;
  }
  /// Whether a cell can be filled one sample at a time, and left whenever it is.
  [[nodiscard]] constexpr bool grows() const noexcept { return least == 0 && step == 1; }
};

/// n items (samples, or samples that stay together) for the cells of a grid of ranks and slots, within
/// one cap: what the greedy grid plans.
///
/// Shapes      costs[n], weights[n], counts[n], kinds[n], heaviest_first[n]; most_weights[ranks];
///             slots[microbatches].
/// Expects     (a) costs and weights are not negative and add up to less than 2^63
///             (b) heaviest_first is the `descending_order_into` of the costs
///             (c) ranks and microbatches are at least 1 and cells fewer than 2^32
///             (d) every kind has a slot, and slots of one kind are next to each other
struct grid_problem {
  std::span<cost_units const> costs;
  std::span<std::int64_t const> weights;
  std::span<std::uint32_t const> counts;  ///< samples of each item
  std::span<std::uint32_t const> kinds;
  std::span<priced_sample const> heaviest_first;
  std::span<std::int64_t const> most_weights;
  std::span<grid_slot const> slots;
  grid_meeting meet = grid_meeting::step;

  [[nodiscard]] constexpr std::size_t ranks() const noexcept { return most_weights.size(); }
  [[nodiscard]] constexpr std::size_t cells() const noexcept { return ranks() * slots.size(); }
};

/// A grid that is being filled: the cell of each item, and what each cell holds.
///
/// Cells are numbered slot x ranks + rank; an item without one has cell `nowhere()`.
struct grid_cells {
  grid_problem const& problem;
  std::span<cell_id> owner;
  std::span<cost_units> loads;
  std::span<std::int64_t> weights;
  std::span<std::uint32_t> counts;
  std::span<cost_units> sums;  // scratch, by rank

  grid_cells(grid_problem const& given, std::span<cell_id> owners, workspace::frame& scratch)
      : problem(given),
        owner(owners),
        loads(scratch.take<cost_units>(given.cells())),
        weights(scratch.take<std::int64_t>(given.cells())),
        counts(scratch.take<std::uint32_t>(given.cells())),
        sums(scratch.take<cost_units>(given.ranks()))
  {}

  [[nodiscard]] std::size_t nowhere() const noexcept { return problem.cells(); }
  [[nodiscard]] std::size_t cell_of(std::size_t item) const noexcept
  {
    return to_index(owner[item]);
  }

  void clear() noexcept
  {
    std::fill(owner.begin(), owner.end(), to_id<cell_id>(nowhere()));
    empty();
  }

  void recount() noexcept
  {
    empty();
    for (std::size_t item = 0; item < owner.size(); ++item) {
      std::size_t const cell = cell_of(item);
      if (cell != nowhere()) { put(item, cell); }
    }
  }

  void put(std::size_t item, std::size_t cell) noexcept
  {
    owner[item] = to_id<cell_id>(cell);
    loads[cell] += problem.costs[item];
    weights[cell] += problem.weights[item];
    counts[cell] += problem.counts[item];
  }
  void move(std::size_t item, std::size_t cell) noexcept
  {
    std::size_t const from = cell_of(item);
    loads[from] -= problem.costs[item];
    weights[from] -= problem.weights[item];
    counts[from] -= problem.counts[item];
    put(item, cell);
  }

  [[nodiscard]] bool has_room(std::size_t item, std::size_t cell, std::uint32_t most) const noexcept
  {
    return problem.weights[item] <= problem.most_weights[cell % problem.ranks()] - weights[cell] &&
           problem.counts[item] <= most - counts[cell];
  }
  [[nodiscard]] grid_slot const& slot_of(std::size_t cell) const noexcept
  {
    return problem.slots[cell / problem.ranks()];
  }

  /// Whether every item has a cell and every cell a number of samples that its slot takes.
  [[nodiscard]] bool is_valid() const noexcept
  {
    for (std::size_t cell = 0; cell < counts.size(); ++cell) {
      if (!slot_of(cell).takes(counts[cell])) { return false; }
    }
    return std::none_of(owner.begin(), owner.end(),
                        [this](cell_id cell) { return to_index(cell) == nowhere(); });
  }

  [[nodiscard]] cost_units largest_of(std::size_t slot) const noexcept
  {
    auto const first = loads.begin() + static_cast<std::ptrdiff_t>(slot * problem.ranks());
    return *std::max_element(first, first + static_cast<std::ptrdiff_t>(problem.ranks()));
  }

  [[nodiscard]] cost_units makespan() const noexcept
  {
    cost_units sum = 0;
    if (problem.meet == grid_meeting::microbatch) {
      for (std::size_t slot = 0; slot < problem.slots.size(); ++slot) { sum += largest_of(slot); }
      return sum;
    }
    std::fill(sums.begin(), sums.end(), 0);
    for (std::size_t cell = 0; cell < loads.size(); ++cell) {
      sums[cell % problem.ranks()] += loads[cell];
    }
    return *std::max_element(sums.begin(), sums.end());
  }

 private:
  void empty() noexcept
  {
    std::fill(loads.begin(), loads.end(), 0);
    std::fill(weights.begin(), weights.end(), 0);
    std::fill(counts.begin(), counts.end(), 0U);
  }
};

/// An item with all that a pass over the items looks at.
struct grid_item {
  cost_units cost;
  std::int64_t weight;
  std::uint32_t item;
  std::uint32_t count;
};

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
