// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_REFINE_GRID_HPP
#define BALLAST_PARTITION_GRID_REFINE_GRID_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/detail/grid_cells.hpp>
#include <ballast/partition/grid/detail/rank_exchanges.hpp>
#include <ballast/partition/grid/fill_slots.hpp>
#include <ballast/partition/grid/grid_options.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// The plan of another policy, with samples exchanged between cells until none helps: over the whole
/// step where ranks meet once, or slot by slot where they meet in every microbatch.
///
///     refine_grid{}
///
/// The rank with the most work gives a sample, or swaps one, with those that have the least: the
/// exchange after which the later of the two finishes earliest, and which keeps both cells within
/// caps, counts and kinds. So the largest sum goes down with every exchange.
///
/// Ensures     (1) what grid_policy says, if so for Inner
///             (2) the makespan is not above Inner's
///             (3) with no work per sample the plan is Inner's
/// Complexity  Inner, and work_per_sample n steps along lists of samples; O(n) scratch.
template <grid_policy Inner = fill_slots>
struct refine_grid {
  [[no_unique_address]] Inner inner{};
  std::uint64_t work_per_sample = 100;

  [[nodiscard]] bool operator()(grid_problem const& problem, std::span<cell_id> owner,
                                workspace& memory) const
  {
    if (!inner(problem, owner, memory)) { return false; }
    auto scratch = memory.open();
    detail::grid_cells cells(problem, owner, scratch);
    cells.recount();
    detail::work_budget left(work_per_sample * owner.size());
    detail::rank_exchanges exchanges(cells, left, scratch);
    if (problem.meet == grid_meeting::step) {
      exchanges.level(0, problem.slots.size());
    } else {
      for (std::size_t slot = 0; slot < problem.slots.size(); ++slot) {
        exchanges.level(slot, slot + 1);
      }
    }
    return true;
  }

  friend bool operator==(refine_grid const&, refine_grid const&) = default;
};

template <class Inner>
refine_grid(Inner) -> refine_grid<Inner>;
template <class Inner>
refine_grid(Inner, std::uint64_t) -> refine_grid<Inner>;
refine_grid() -> refine_grid<>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_GRID_REFINE_GRID_HPP
