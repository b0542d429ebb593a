// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_ROWS_TO_RANKS_HPP
#define BALLAST_PARTITION_GRID_DETAIL_ROWS_TO_RANKS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/detail/grid_cells.hpp>
#include <ballast/partition/grid/grid_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Gives the cells of each slot to the ranks anew: slots with the largest cells first, the heaviest
/// cell of each to the rank with the least so far and, of these, with the fewest cells that hold
/// something. So the cells that must be empty are spread over the ranks. A slot whose cells would
/// not keep to the caps stays as it is.
///
/// Complexity  O(n + K R log R).
inline void rows_to_ranks(grid_cells& cells, workspace& memory)
{
  std::size_t const ranks = cells.problem.ranks();
  std::size_t const slots = cells.problem.slots.size();
  auto scratch = memory.open();
  auto const order = scratch.take<std::uint32_t>(slots);
  auto const largest = scratch.take<cost_units>(slots);
  auto const rows = scratch.take<std::uint32_t>(ranks);
  auto const takers = scratch.take<std::uint32_t>(ranks);
  auto const sums = scratch.take<cost_units>(ranks);
  auto const busy = scratch.take<std::uint32_t>(ranks);
  auto const moved_to = scratch.take<cell_id>(cells.problem.cells() + 1);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t slot = 0; slot < slots; ++slot) { largest[slot] = cells.largest_of(slot); }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return largest[a] != largest[b] ? largest[a] > largest[b] : a < b;
  });
  std::fill(sums.begin(), sums.end(), 0);
  std::fill(busy.begin(), busy.end(), 0U);
  for (std::uint32_t const slot : order) {
    std::size_t const first = slot * ranks;
    std::iota(rows.begin(), rows.end(), 0U);
    std::iota(takers.begin(), takers.end(), 0U);
    std::sort(rows.begin(), rows.end(), [&](std::uint32_t a, std::uint32_t b) {
      cost_units const left = cells.loads[first + a];
      cost_units const right = cells.loads[first + b];
      if (left != right) { return left > right; }
      bool const left_empty = cells.counts[first + a] == 0;
      bool const right_empty = cells.counts[first + b] == 0;
      return left_empty != right_empty ? right_empty : a < b;
    });
    std::sort(takers.begin(), takers.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (sums[a] != sums[b]) { return sums[a] < sums[b]; }
      return busy[a] != busy[b] ? busy[a] < busy[b] : a < b;
    });
    bool fit = true;
    for (std::size_t place = 0; place < ranks; ++place) {
      fit = fit && cells.weights[first + rows[place]] <= cells.problem.most_weights[takers[place]];
    }
    if (!fit) { std::copy(rows.begin(), rows.end(), takers.begin()); }
    for (std::size_t place = 0; place < ranks; ++place) {
      std::size_t const cell = first + rows[place];
      sums[takers[place]] += cells.loads[cell];
      busy[takers[place]] += cells.counts[cell] > 0 ? 1U : 0U;
      moved_to[cell] = to_id<cell_id>(first + takers[place]);
    }
  }
  moved_to.back() = to_id<cell_id>(cells.nowhere());
  for (cell_id& cell : cells.owner) { cell = moved_to[to_index(cell)]; }
  cells.recount();
}

/// Puts an item in each empty cell for which there is one in a cell of several: the lightest, where
/// every cell needs one; otherwise only where the makespan does not grow.
///
/// Complexity  O(n) for each empty cell, and O(R) for each slot and each item that moves.
inline void fill_empty_cells(grid_cells& cells)
{
  grid_problem const& problem = cells.problem;
  std::size_t const ranks = problem.ranks();
  std::size_t const none = problem.slots.size();
  std::size_t measured = none;  // the slot whose largest cell has this height
  cost_units height = 0;
  for (std::size_t cell = 0; cell < problem.cells(); ++cell) {
    grid_slot const& slot = cells.slot_of(cell);
    if (cells.counts[cell] != 0 || slot.step != 1) { continue; }
    bool const needed = slot.least > 0;
    if (measured != cell / ranks) {
      measured = cell / ranks;
      height = cells.largest_of(measured);
    }
    for (std::size_t place = problem.heaviest_first.size(); place-- > 0;) {
      auto const [cost, sample] = problem.heaviest_first[place];
      std::size_t const item = to_index(sample);
      std::size_t const from = cells.cell_of(item);
      if (problem.kinds[item] != slot.kind || cells.counts[from] <= problem.counts[item] ||
          !cells.slot_of(from).takes(cells.counts[from] - problem.counts[item]) ||
          !cells.has_room(item, cell, slot.most)) {
        continue;
      }
      bool const free =
          problem.meet == grid_meeting::step ? from % ranks == cell % ranks : cost <= height;
      if (!needed && !free) { continue; }
      cells.move(item, cell);
      measured = none;
      break;
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_ROWS_TO_RANKS_HPP
