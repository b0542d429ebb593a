// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_FILL_TO_HEIGHT_HPP
#define BALLAST_PARTITION_GRID_DETAIL_FILL_TO_HEIGHT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/detail/grid_cells.hpp>
#include <ballast/partition/grid/detail/grid_items.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// A cell of the slot that is being filled. Its order is that of a heap: emptiest first.
struct filling_cell {
  cost_units load;
  std::uint32_t rank;

  friend constexpr bool operator<(filling_cell a, filling_cell b) noexcept
  {
    return a.load != b.load ? a.load < b.load : a.rank < b.rank;
  }
};

/// Fills slot after slot up to a height: heaviest first, each item to the emptiest cell, if it
/// stays below the height there and within the cap; otherwise a later slot takes it. The height is
/// the heaviest item left, or so many thousandths of the mean of what is left, and the last slot
/// has none.
///
/// Items that are too heavy for the emptiest cell are jumped over: those that are left are kept as
/// a list whose links skip the ones that are gone (path halving), so that a slot looks at what it
/// takes, and not at all that is left.
class fill_to_height {
 public:
  fill_to_height(grid_cells& cells, workspace::frame& scratch)
      : cells_(cells),
        cap_differs_(*std::max_element(cells.problem.most_weights.begin(),
                                       cells.problem.most_weights.end()) !=
                     *std::min_element(cells.problem.most_weights.begin(),
                                       cells.problem.most_weights.end())),
        next_(scratch.take<std::uint32_t>(cells.owner.size() + 1)),
        heap_(scratch.take<filling_cell>(cells.problem.ranks()))
  {}

  /// Returns whether all items of the kind have a cell.
  ///
  /// Expects     no slot of the kind holds anything.
  /// Complexity  O(n (log R + log n)) where weights are in the order of costs.
  [[nodiscard]] bool operator()(kind_of_items const& kind, std::uint32_t thousandths)
  {
    items_ = kind.items;
    std::iota(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(items_.size() + 1), 0U);
    cost_units rest = kind.work;
    for (std::size_t slot = kind.first_slot; slot < kind.end_slot; ++slot) {
      std::uint32_t const heaviest = left_from(0);
      if (heaviest == items_.size()) { return true; }
      bool const last = slot + 1 == kind.end_slot;
      cost_units height = std::numeric_limits<cost_units>::max();
      if (!last) {
        uint128 const shares = uint128{1000} * (kind.end_slot - slot) * cells_.problem.ranks();
        uint128 const mean =
            (uint128{static_cast<std::uint64_t>(rest)} * thousandths + (shares - 1)) / shares;
        height = std::max(items_[heaviest].cost, static_cast<cost_units>(mean));
      }
      rest -= fill(slot, heaviest, height, last);
    }
    return left_from(0) == items_.size();
  }

 private:
  /// Returns the work that the slot took.
  cost_units fill(std::size_t slot, std::uint32_t next, cost_units height, bool last)
  {
    std::size_t const ranks = cells_.problem.ranks();
    std::size_t const first_cell = slot * ranks;
    std::uint32_t const most = cells_.problem.slots[slot].most;
    auto heap = heap_;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      heap[rank] = {0, static_cast<std::uint32_t>(rank)};
    }
    cost_units taken = 0;
    while (next < items_.size() && !heap.empty()) {
      grid_item const& item = items_[next];
      filling_cell const top = heap.front();
      std::size_t const cell = first_cell + top.rank;
      if (cells_.counts[cell] == most) {
        if (heap.size() == 1) { break; }
        replace_front(heap.first(heap.size() - 1), heap.back());
        heap = heap.first(heap.size() - 1);
        continue;
      }
      if (item.cost > height - top.load) {
        next = left_from(first_up_to(height - top.load, next));
        continue;
      }
      if (cells_.has_room(item.item, cell, most)) {
        cells_.put(item.item, cell);
        replace_front(heap, {top.load + item.cost, top.rank});
      } else if ((!last && !cap_differs_) ||  // a later slot has room
                 !put_elsewhere(item, heap, first_cell, height, most)) {
        next = left_from(next + 1);
        continue;
      }
      taken += item.cost;
      next_[next] = next + 1;
      next = left_from(next + 1);
    }
    return taken;
  }

  /// Puts the item in the emptiest cell of the slot that has room for it. O(ranks), until cells
  /// were looked at 2^28 times; then none has room.
  bool put_elsewhere(grid_item const& item, std::span<filling_cell> heap, std::size_t first_cell,
                     cost_units height, std::uint32_t most)
  {
    looks_.spend(heap.size());
    if (looks_.spent()) { return false; }
    filling_cell* best = nullptr;
    for (filling_cell& each : heap) {
      if (cells_.has_room(item.item, first_cell + each.rank, most) &&
          item.cost <= height - each.load && (best == nullptr || each < *best)) {
        best = &each;
      }
    }
    if (best == nullptr) { return false; }
    cells_.put(item.item, first_cell + best->rank);
    best->load += item.cost;
    // A heavier cell sinks to where the order of the heap holds again.
    auto place = static_cast<std::size_t>(best - heap.data());
    for (std::size_t child = 2 * place + 1; child < heap.size(); child = 2 * place + 1) {
      if (child + 1 < heap.size() && heap[child + 1] < heap[child]) { ++child; }
      if (!(heap[child] < heap[place])) { break; }
      std::swap(heap[child], heap[place]);
      place = child;
    }
    return true;
  }

  /// The first item from `place` on that is left, or n.
  [[nodiscard]] std::uint32_t left_from(std::uint32_t place) noexcept
  {
    while (next_[place] != place) {
      next_[place] = next_[next_[place]];
      place = next_[place];
    }
    return place;
  }

  /// The first place after `place` whose item costs at most this, or n.
  [[nodiscard]] std::uint32_t first_up_to(cost_units cost, std::uint32_t place) const noexcept
  {
    auto const count = static_cast<std::uint32_t>(items_.size());
    std::uint32_t step = 1;
    while (place + step < count && items_[place + step].cost > cost) {
      place += step;
      step *= 2;
    }
    auto const first = items_.begin() + place;
    auto const found =
        std::partition_point(first, items_.begin() + std::min(count, place + step),
                             [cost](grid_item const& item) { return item.cost > cost; });
    return static_cast<std::uint32_t>(found - items_.begin());
  }

  grid_cells& cells_;
  bool cap_differs_;
  std::span<std::uint32_t> next_;  // the item itself while it is left
  work_budget looks_{std::uint64_t{1} << 28};
  std::span<filling_cell> heap_;
  std::span<grid_item const> items_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_FILL_TO_HEIGHT_HPP
