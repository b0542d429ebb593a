// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_FILL_SLOTS_HPP
#define BALLAST_PARTITION_GRID_FILL_SLOTS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/detail/deal_cells.hpp>
#include <ballast/partition/grid/detail/fill_to_height.hpp>
#include <ballast/partition/grid/detail/grid_cells.hpp>
#include <ballast/partition/grid/detail/grid_items.hpp>
#include <ballast/partition/grid/detail/rows_to_ranks.hpp>
#include <ballast/partition/grid/detail/search_cells.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// The greedy grid: fills slot after slot up to a height, for several heights, and keeps the best
/// plan.
///
/// The height of a slot is the longest sample left or the mean of what is left, raised by 0, 0.5, 1,
/// ... per cent, the longer of them; samples go heaviest first to the emptiest cell that stays below
/// it and below its cap. Long samples so come to lie in the same slots. Then slots give their cells
/// to ranks, heaviest to the rank with the least work. One more plan deals all samples over all
/// cells at once and sorts these into slots; where counts are prescribed, it is the only one. Where
/// no plan of these keeps to caps and counts, cells are searched for, in small grids until one is
/// found or there is none.
///
/// Ensures     (1) what grid_policy says
///             (2) of its plans, the one with the smallest makespan, and of these the first
/// Complexity  O(n (log n + log R) + K R log R) for each height, where weights are in the order of
///             costs and caps the same; there are `heights` of them, or fewer where `work` items
///             were looked at.
/// Source      D. K. Friesen, M. A. Langston, "Variable Sized Bin Packing", SIAM J. Computing
///             15(1):222-230, 1986, for bins of several heights; the heights are ours.
struct fill_slots {
  std::uint32_t heights = 40;
  std::uint64_t work =
      10'240;  ///< items to place or cells, whichever are more, in one pass at least

  [[nodiscard]] bool operator()(grid_problem const& problem, std::span<cell_id> owner,
                                workspace& memory) const
  {
    auto scratch = memory.open();
    auto const kinds = detail::items_by_kind(problem, scratch);
    auto const tried = scratch.take<cell_id>(owner.size());
    detail::grid_cells cells(problem, tried, scratch);
    detail::fill_to_height fill(cells, scratch);
    cost_units least = no_cost;
    auto const keep_best = [&] {
      detail::rows_to_ranks(cells, memory);
      detail::fill_empty_cells(cells);
      if (!cells.is_valid()) { return; }
      cost_units const makespan = cells.makespan();
      if (makespan >= least) { return; }
      least = makespan;
      std::copy(tried.begin(), tried.end(), owner.begin());
    };

    BALLAST_EXPECTS(heights >= 1, "fill_slots was told to try 0 heights");
    bool const grow =
        std::all_of(problem.slots.begin(), problem.slots.end(),
                    [](grid_slot const& slot) { return slot.step == 1 && slot.least <= 1; });
    auto const larger = std::max<std::uint64_t>(owner.size(), problem.cells());
    std::uint64_t const a_pass = larger == 0 ? 1 : larger;
    auto const passes =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(work / a_pass, 1, heights));
    auto const fill_all = [&](std::uint32_t height) {
      cells.clear();
      bool const placed = std::all_of(kinds.begin(), kinds.end(), [&](auto const& kind) {
        return fill(kind, 1000 + 5 * height);
      });
      if (placed) { keep_best(); }
    };
    // The first ones come last: with no room to spare in a slot, the last one gets too much.
    for (std::uint32_t pass = 0; grow && pass < passes; ++pass) { fill_all((pass + 2) % heights); }
    if (grow && least == no_cost) { fill_all(heights); }
    auto const deal_all = [&](bool by_cap) {
      cells.clear();
      bool const placed = std::all_of(kinds.begin(), kinds.end(), [&](auto const& kind) {
        return detail::deal_cells(cells, kind, by_cap, memory);
      });
      if (placed) { keep_best(); }
    };
    if (!grow || work / a_pass >= 4 || least == no_cost) { deal_all(false); }
    if (!grow && least == no_cost) { deal_all(true); }
    if (least == no_cost) {
      cells.clear();
      bool const placed = std::all_of(kinds.begin(), kinds.end(), [&](auto const& kind) {
        return detail::search_cells(cells, kind, memory) == detail::plan_search::found;
      });
      if (placed) { keep_best(); }
    }
    return least != no_cost;
  }

  friend bool operator==(fill_slots, fill_slots) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_GRID_FILL_SLOTS_HPP
