// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_SLOT_RANGE_HPP
#define BALLAST_PARTITION_GRID_DETAIL_SLOT_RANGE_HPP

#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/detail/grid_step.hpp>
#include <ballast/partition/grid/detail/search_cells.hpp>
#include <ballast/partition/grid/detail/slot_shares.hpp>
#include <ballast/partition/grid/grid_options.hpp>

#include <algorithm>
#include <cstddef>

namespace ballast::inline v0::detail {

/// The numbers of slots that a step may have: where the last has no plan, larger ones have none.
struct slot_range {
  std::size_t least;
  std::size_t last;
  std::size_t multiple;
  bool has_gaps;  ///< a number without a plan may lie above one that has a plan

  static constexpr std::size_t one_by_one = 64;  ///< so many numbers are tried one after the other

  slot_range(grid_step const& step, grid_options const& options, std::size_t samples)
      : multiple(options.multiple_of),
        has_gaps(options.fill_cells || options.counts.kind == cell_counts::rule::equal)
  {
    least = rounded(step.fewest());
    bool const whole = options.counts.kind == cell_counts::rule::multiple_of;
    // With more, a kind has more cells than samples, or than full steps of them; of equal counts,
    // more cells of the largest cap, which hold any of them.
    auto const& caps = step.problem.most_weights;
    auto const largest = static_cast<std::size_t>(
        std::count(caps.begin(), caps.end(), *std::max_element(caps.begin(), caps.end())));
    std::size_t const further = has_gaps ? samples / largest + step.kinds.size()
                                         : samples / (whole ? options.counts.number : 1);
    last = options.fill_cells ? samples / step.problem.ranks() / multiple * multiple
                              : rounded(least + further);
  }

  /// Finds the least number with which `fill` finds a plan: one after the other where there may be
  /// gaps, otherwise in steps that double, and back. Returns 0 where there is none.
  template <class Fill>
  [[nodiscard]] std::size_t find(Fill const& fill) const
  {
    if (has_gaps) {
      std::size_t tried = least;
      for (; tried <= last && (tried - least) / multiple < one_by_one; tried += multiple) {
        if (fill(tried)) { return tried; }
      }
      if (tried > last) { return 0; }
    }
    std::size_t tried = least;
    std::size_t failed = least - multiple;
    for (std::size_t step = multiple; !fill(tried); step *= 2) {
      if (tried >= last) { return 0; }
      failed = tried;
      tried += step;
    }
    while (tried - failed > multiple) {
      std::size_t const middle = failed + (tried - failed) / multiple / 2 * multiple;
      (fill(middle) ? tried : failed) = middle;
    }
    return tried;
  }

  /// Whether it is proven that no number has a plan.
  [[nodiscard]] bool has_no_plan(grid_step const& step, grid_options const& options,
                                 workspace& memory) const
  {
    std::size_t const first = has_gaps ? least : last;
    if (first <= last && (last - first) / multiple >= one_by_one) { return false; }
    for (std::size_t slots = first; slots <= last; slots += multiple) {
      if (!is_without_plan(step, options, slots, memory)) { return false; }
    }
    return true;
  }

  /// Whether it is proven that this number of slots has no plan.
  [[nodiscard]] static bool is_without_plan(grid_step const& step, grid_options const& options,
                                            std::size_t slots, workspace& memory)
  {
    return slots < step.fewest() ||
           search_shares(step, options, slots, memory) == plan_search::none;
  }

 private:
  [[nodiscard]] std::size_t rounded(std::size_t slots) const noexcept
  {
    return (slots + multiple - 1) / multiple * multiple;
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_SLOT_RANGE_HPP
