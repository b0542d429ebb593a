// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_GRID_CELLS_HPP
#define BALLAST_PARTITION_GRID_DETAIL_GRID_CELLS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/grid_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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

  /// No item has a cell.
  void clear() noexcept
  {
    std::fill(owner.begin(), owner.end(), to_id<cell_id>(nowhere()));
    empty();
  }

  /// Reads what cells hold from the owners.
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

  /// Whether the cell has room for the item, up to `most` samples.
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_GRID_CELLS_HPP
