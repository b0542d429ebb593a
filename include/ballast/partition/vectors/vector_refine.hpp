// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/fill_vectors_by_density.hpp>
#include <ballast/partition/vectors/detail/least_finish.hpp>
#include <ballast/partition/vectors/detail/place_vectors_within_capacity.hpp>
#include <ballast/partition/vectors/detail/vector_search.hpp>
#include <ballast/partition/vectors/vector_longest_processing_time.hpp>
#include <ballast/partition/vectors/vector_lower_bound.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Improves another policy's plan until its last bin finishes at the mean, no exchange helps, or the
/// work is spent.
///
/// The bin b that finishes last of all, in dimension d, has to become lighter. The search tries
/// partners from the first to finish in d on. Of all moves of a sample from b and all exchanges of
/// one for one, it makes the one after which the two bins finish earliest, if that is before b does
/// now. Where no partner has one, it tries exchanges of two for two in the same manner. Samples are
/// in order of their costs in d, and what an exchange takes off b is bounded from both sides, so it
/// prices few pairs. Samples go only where they fit and where there is room.
///
/// Where the inner policy's plan overruns capacities, or leaves samples without a bin, the search
/// begins with a plan that does not: `detail::place_vectors_within_capacity`. Where capacities leave
/// what it finds more than 1/2048 above the bound, it begins anew up to 4 D times, with plans in which
/// slow bins hold what is little work for its weight: `detail::fill_vectors_by_density`.
///
/// Ensures     (1) every sample that found room has one bin, which it fits, and loads have changed
///                 as the owners have
///             (2) the makespan is not above the inner policy's, if that plan keeps to the capacities
///             (3) with no work to spend the plan is the inner policy's, if it keeps to them
///             (4) no bin weighs more than its capacity
/// Complexity  the inner policy, D radix sorts, and the pricing of about work_per_sample n pairs,
///             each O(D), with capacities up to 4 D + 1 times and O(D n m) for each start; an exchange
///             moves O(D (m + k)) words for bins of k samples; scratch of
///             (16 + 8 D) D bytes per sample and twice per bin.
template <class Inner = vector_longest_processing_time>
struct vector_refine {
  [[no_unique_address]] Inner inner{};
  std::uint64_t work_per_sample = 64;  ///< pairs that a search looks at, per sample

  template <std::size_t D>
    requires vector_partition_policy<Inner, D>
  void operator()(vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                  std::span<bin_id> owner, workspace& memory) const
  {
    BALLAST_EXPECTS(!loads.empty());
    BALLAST_EXPECTS(owner.size() == problem.costs.size());
    auto scratch = memory.open();
    std::span<cost_vector<D>> const starts =
        scratch.take<cost_vector<D>>(problem.capacities.size());
    std::copy_n(loads.begin(), starts.size(), starts.begin());
    inner(problem, loads, owner, memory);
    if (!problem.capacities.empty() && !detail::keeps_to_capacities<D>(problem, owner, memory) &&
        !detail::place_vectors_within_capacity<D>(problem, starts, loads, owner, memory)) {
      return;
    }
    if (work_per_sample == 0) { return; }

    search<D>(problem, loads, owner, memory);
    if (!problem.capacities.empty()) { try_dense_starts<D>(problem, starts, loads, owner, memory); }
  }

  friend bool operator==(vector_refine const&, vector_refine const&) = default;

 private:
  template <std::size_t D>
  void search(vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
              std::span<bin_id> owner, workspace& memory) const
  {
    auto scratch = memory.open();
    ratio const target = detail::least_finish<D>(problem, detail::sum_of<D>(loads), loads.size());
    detail::work_budget work(work_per_sample * owner.size());
    detail::vector_search<D>(problem, loads, owner, work, scratch, memory).run(target);
  }

  /// Searches also from plans in which slow bins hold what is little work for its weight, and keeps
  /// the best plan. That work is what a sample costs in one dimension, and a little of what it costs
  /// in others: without that the slow bins would get what is heavy there.
  template <std::size_t D>
  void try_dense_starts(vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                        std::span<cost_vector<D>> loads, std::span<bin_id> owner,
                        workspace& memory) const
  {
    constexpr int near = 11;  // as a power of 2: a bound's part above it at which a plan is good
    ratio const bound = detail::vector_bound(problem, loads.size(), memory);
    auto const is_good = [&] {
      ratio const finish = detail::finish_of<D>(problem, loads);
      return finish <=
             ratio{bound.numerator + std::min(bound.numerator >> near, no_cost - bound.numerator),
                   bound.denominator};
    };
    auto scratch = memory.open();
    std::span<cost_units> const work = scratch.take<cost_units>(owner.size());
    std::span<cost_vector<D>> const other_loads = scratch.take<cost_vector<D>>(loads.size());
    std::span<bin_id> const other_owner = scratch.take<bin_id>(owner.size());
    using detail::dense_choice;
    for (std::size_t start = 0; start < 4 * D && !is_good(); ++start) {
      std::size_t const dimension = start / 4;
      int const others = start % 2 == 0 ? 4 : 3;  // as a power of 2: what other dimensions count
      auto const choice = start % 4 < 2 ? dense_choice::speed : dense_choice::slack;
      std::transform(problem.costs.begin(), problem.costs.end(), work.begin(),
                     [dimension, others](cost_vector<D> const& cost) {
                       cost_units sum = cost[dimension] / 2;  // so that the sums below fit
                       for (std::size_t d = 0; d < D; ++d) {
                         if (d != dimension) { sum += cost[d] / cost_units{2 * D} >> others; }
                       }
                       return sum;
                     });
      if (!detail::fill_vectors_by_density<D>(problem, work, choice, bound, starts, other_loads,
                                              other_owner, memory)) {
        continue;
      }
      search<D>(problem, other_loads, other_owner, memory);
      if (detail::finish_of<D>(problem, other_loads) < detail::finish_of<D>(problem, loads)) {
        std::copy(other_loads.begin(), other_loads.end(), loads.begin());
        std::copy(other_owner.begin(), other_owner.end(), owner.begin());
      }
    }
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP
