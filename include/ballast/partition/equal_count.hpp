// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_EQUAL_COUNT_HPP
#define BALLAST_PARTITION_EQUAL_COUNT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/counts/balanced_counts.hpp>
#include <ballast/partition/detail/counts/counted_bags.hpp>
#include <ballast/partition/detail/counts/counted_exchanges.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/equal_count_bound.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// As many samples in every bag as in every other, and within that a small makespan.
///
/// Trainers ask for it where all ranks take the same number of microbatches or samples, as in
/// reinforcement learning. Samples that are to stay together count as one.
///
/// Counts differ by at most `multiple`, and all but one are multiples of it; the larger ones go to
/// the faster bags, and what n leaves of its multiples to one bag. Bags of several sizes or speeds
/// get equal counts all the same; where too few samples are long enough for large bags, these get
/// fewer, as `detail::balanced_counts` says. Samples are placed heaviest first in the bag with a
/// free place that finishes earliest, and then exchanged, as many for as many.
///
/// Expects     multiple >= 1
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) where every sample fits every bag, counts differ by at most `multiple`; all but
///                 one are multiples of it
///             (4) no plan with these counts, in whichever bags, has a makespan below the answer
///             (5) the makespan does not grow with `work`, which is a number of steps, not time: all
///                 ranks find the same plan
/// Complexity  O(n (sizes + log m)) and O(work), after the sort that the problem brings.
/// Source      placing: M. Dell'Amico, S. Martello, "Bounds for the Cardinality Constrained P||Cmax
///             Problem", J. Scheduling 4(3):123-138, 2001; exchanges: `detail::find_exchange`.
struct equal_count {
  std::uint32_t multiple = 1;  ///< every count is a multiple of this
  std::uint64_t work = std::uint64_t{1}
                       << 17;  ///< how many samples and sums the exchanges may look at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    BALLAST_EXPECTS(!loads.empty() && loads.size() == problem.gpus.size());
    BALLAST_EXPECTS(owner.size() == problem.costs.size());
    BALLAST_EXPECTS(multiple >= 1);
    auto scratch = memory.open();
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(loads.size());
    detail::balanced_counts(problem, loads, multiple, counts, memory);
    ratio const bound = equal_count_bound(problem, counts, memory);
    detail::counted_bags const bags(problem, counts, loads, scratch);
    std::uint64_t left = work;
    detail::counted_exchanges plan(problem, bags, left, memory);
    detail::swap_extremes(plan, bound, memory);
    detail::settle_latest(plan, bound, scratch)();
    bags.store(owner);
    return bound;
  }

  [[nodiscard]] static constexpr bool restricts() noexcept { return true; }

  friend bool operator==(equal_count, equal_count) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_EQUAL_COUNT_HPP
