// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_EQUAL_COUNT_HPP
#define BALLAST_PARTITION_EQUAL_COUNT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/equal_count_bound.hpp>
#include <ballast/partition/detail/counts/balanced_counts.hpp>
#include <ballast/partition/detail/counts/counted_bags.hpp>
#include <ballast/partition/detail/counts/counted_exchanges.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/detail/exchange/swap_extremes.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>

#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// The same number of samples in every bag, and with that a small makespan.
///
/// Trainers ask for it where all ranks take the same number of microbatches or samples, as in
/// reinforcement learning. Samples that stay together count as one.
///
/// Counts differ by at most `multiple`, and all but one are multiples of it. The larger counts go to
/// the faster bags; the rest that is no whole multiple goes to one bag. Bags of several sizes or
/// speeds get equal counts too; where too few samples are long enough for large bags, these get
/// fewer. Samples go heaviest first to the bag with a free place that finishes earliest; then bags
/// exchange samples, as many for as many.
///
/// Expects     multiple >= 1
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) where every sample fits every bag, counts differ by at most `multiple`; all but
///                 one are multiples of it
///             (4) no plan with these counts, in any order of bags, has a makespan below the one
///                 returned
///             (5) the makespan does not grow with `work`, which is a number of steps, not time: all
///                 ranks find the same plan
/// Complexity  O(n (sizes + log m)) and O(work), after the sort that the problem brings.
/// Source      the first plan: M. Dell'Amico, S. Martello, "Bounds for the Cardinality Constrained
///             P||Cmax Problem", J. Scheduling 4(3):123-138, 2001; exchanges:
///             `detail::find_exchange`.
struct equal_count {
  std::uint32_t multiple = 1;  ///< every count is a multiple of this
  /// How many samples and sums the exchanges look at.
  std::uint64_t work = std::uint64_t{1} << 17;

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    BALLAST_EXPECTS(multiple >= 1, "equal_count was told to make counts multiples of ", multiple);
    auto scratch = memory.open();
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(loads.size());
    detail::balanced_counts_into(counts, problem, loads, multiple, memory);
    ratio const bound = detail::equal_count_bound(problem, counts, memory);
    detail::counted_bags const bags(problem, counts, loads, scratch);
    detail::work_budget left(work);
    detail::counted_exchanges plan(problem, bags, left, memory);
    detail::swap_extremes(plan, bound, memory);
    detail::settle_latest(plan, bound, scratch, detail::settle_order::swaps_of_all_first)();
    bags.store(owner);
    return bound;
  }

  [[nodiscard]] static constexpr bool restricts() noexcept { return true; }
  /// What it restricts are the numbers of samples alone.
  [[nodiscard]] static constexpr bool keeps_counts() noexcept { return true; }

  friend bool operator==(equal_count, equal_count) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_EQUAL_COUNT_HPP
