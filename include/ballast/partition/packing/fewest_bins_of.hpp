// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_FEWEST_BINS_OF_HPP
#define BALLAST_PARTITION_PACKING_FEWEST_BINS_OF_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/packing_lower_bound.hpp>

#include <algorithm>
#include <span>

namespace ballast::inline v0 {

/// The packing of the first policy if it has the fewest bins by proof, and otherwise the one with
/// fewer bins of two policies.
///
///     fewest_bins_of{best_fit_decreasing{}, minimum_bin_slack{}}
///
/// Ensures     (1) no more bins than either policy
/// Complexity  both policies at most, and O(n).
template <packing_policy First, packing_policy Second>
struct fewest_bins_of {
  [[no_unique_address]] First first{};
  [[no_unique_address]] Second second{};

  packed_bins operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    packed_bins best = run_policy(first, problem, owner, memory);
    best.lower_bound = std::max(best.lower_bound, packing_lower_bound(problem));
    if (best.bins == best.lower_bound) { return best; }
    auto scratch = memory.open();
    std::span<bag_id> const other = scratch.take<bag_id>(owner.size());
    packed_bins const found = run_policy(second, problem, other, memory);
    best.lower_bound = std::max(best.lower_bound, found.lower_bound);
    if (found.bins >= best.bins) { return best; }
    std::copy(other.begin(), other.end(), owner.begin());
    best.bins = found.bins;
    return best;
  }

  friend bool operator==(fewest_bins_of const&, fewest_bins_of const&) = default;
};

template <class First, class Second>
fewest_bins_of(First, Second) -> fewest_bins_of<First, Second>;

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PACKING_FEWEST_BINS_OF_HPP
