// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_REFINE_BINS_HPP
#define BALLAST_PARTITION_PACKING_REFINE_BINS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/bounds/dual_feasible_bound.hpp>
#include <ballast/partition/packing/best_fit_decreasing.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/detail/bin_emptying.hpp>
#include <ballast/partition/packing/detail/bin_pool.hpp>
#include <ballast/partition/packing/detail/pattern_bins.hpp>
#include <ballast/partition/packing/detail/sample_worths.hpp>
#include <ballast/partition/packing/fewest_bins_of.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>
#include <ballast/partition/packing/minimum_bin_slack.hpp>
#include <ballast/partition/packing/packing_lower_bound.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

namespace detail {

using all_packings =
    fewest_bins_of<best_fit_decreasing, fewest_bins_of<minimum_bin_slack, first_fit_decreasing>>;

}  // namespace detail

/// The packing of another policy and, where that is not proven to have the fewest bins, a better
/// bound and a search for fewer bins.
///
///     refine_bins{}
///
/// The bounds are those of dual feasible functions and of the linear program over patterns of
/// weights. The search fills bins by the patterns of that program, and then packs the bins whose
/// samples have the least prices there into one less, over and over, until the work is spent.
///
/// Ensures     (1) every sample has one bin, no bin holds more than the capacity, none is empty, if
///                 that is so for Start
///             (2) no more bins than Start; by default no more than first_fit_decreasing,
///                 best_fit_decreasing and minimum_bin_slack
///             (3) its lower bound is at least packing_lower_bound()
///             (4) the packing depends on nothing but the arguments
/// Complexity  that of Start, where it is proven; else O(n) and the steps, of which a step of at
///             most 240 samples has four times as many; some 100 bytes of scratch per sample and 12
///             MB.
/// Source      P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock
///             Problem", Operations Research 9(6):849-859, 1961; S. P. Fekete, J. Schepers, "New
///             Classes of Fast Lower Bounds for Bin Packing Problems", Mathematical Programming
///             91(1):11-31, 2001.
template <packing_policy Start = detail::all_packings>
struct refine_bins {
  [[no_unique_address]] Start start{};
  /// Steps of the search, of a few nanoseconds each.
  std::uint64_t steps = std::uint64_t{1} << 21;
  std::uint64_t steps_per_sample = 48;

  packed_bins operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    packed_bins best = run_policy(start, problem, owner, memory);
    best.lower_bound = std::max(best.lower_bound, packing_lower_bound(problem));
    if (best.bins == best.lower_bound) { return best; }
    auto scratch = memory.open();
    std::span<cost_units> const weights = scratch.take<cost_units>(owner.size());
    std::transform(problem.heaviest_first.begin(), problem.heaviest_first.end(), weights.begin(),
                   [](auto const& each) { return each.cost; });
    best.lower_bound =
        detail::dual_feasible_bound(weights, problem.capacity, degree, best.lower_bound);
    if (best.bins == best.lower_bound) { return best; }
    // Cut, so that no limit is one that does not overflow.
    constexpr std::uint64_t most = std::uint64_t{1} << 60;
    std::uint64_t const of_samples = std::min(steps_per_sample, most >> 32) * owner.size();
    detail::work_budget left((owner.size() <= few_samples ? 4 : 1) * std::min(steps, most) +
                             of_samples);
    detail::sample_worths worths{scratch.take<std::int64_t>(owner.size()), problem.capacity};
    std::copy(problem.weights.begin(), problem.weights.end(), worths.of.begin());
    best = detail::pattern_bins(problem, memory)(best, owner, worths, left);
    return empty_bins(problem, worths, best, owner, left, memory);
  }

  friend bool operator==(refine_bins const&, refine_bins const&) = default;

 private:
  static constexpr unsigned degree = 5;
  static constexpr std::size_t few_samples = 240;  // for which a proof of one program is in reach

  /// Of the bins worth least, makes one less as long as it can.
  static packed_bins empty_bins(packing_problem const& problem, detail::sample_worths const& worths,
                                packed_bins best, std::span<bag_id> owner,
                                detail::work_budget& left, workspace& memory)
  {
    auto scratch = memory.open();
    detail::bin_pool pool(problem, worths, best.bins, owner, scratch);
    while (best.bins > best.lower_bound && !left.spent()) {
      left.spend(8 * owner.size());
      pool.choose_cheapest(detail::bin_emptying::most_bins(problem.capacity));
      bool const has_all = pool.bins() == best.bins;
      std::size_t const most_less = best.bins - best.lower_bound;
      packed_bins const before{pool.bins(), pool.bins() - std::min(pool.bins(), most_less)};
      packing_problem const part = pool.problem();
      packed_bins const after =
          detail::bin_emptying(part, pool.worths(), memory)(before, pool.owner(), left);
      best.bins = pool.put_back(after.bins);
      if (has_all) { best.lower_bound = std::max(best.lower_bound, after.lower_bound); }
      if (has_all || after.bins == before.bins) { break; }
    }
    return best;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PACKING_REFINE_BINS_HPP
