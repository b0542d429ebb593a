// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/least_finish.hpp>
#include <ballast/partition/vectors/detail/place_vectors_within_capacity.hpp>
#include <ballast/partition/vectors/detail/vector_search.hpp>
#include <ballast/partition/vectors/vector_longest_processing_time.hpp>

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
/// begins with a plan that does not: `detail::place_vectors_within_capacity`.
///
/// Ensures     (1) every sample that found room has one bin, which it fits, and loads have changed
///                 as the owners have
///             (2) the makespan is not above the inner policy's, if that plan keeps to the capacities
///             (3) with no work to spend the plan is the inner policy's, if it keeps to them
///             (4) no bin weighs more than its capacity
/// Complexity  the inner policy, D radix sorts, and the pricing of about work_per_sample n pairs,
///             each O(D); an exchange moves O(D (m + k)) words for bins of k samples; scratch of
///             (16 + 8 D) D bytes per sample and twice per bin.
template <class Inner = vector_longest_processing_time>
struct vector_refine {
  [[no_unique_address]] Inner inner{};
  std::uint64_t work_per_sample = 64;  ///< pairs of samples that it looks at, per sample

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

    ratio const target = detail::least_finish<D>(problem, detail::sum_of<D>(loads), loads.size());
    detail::work_budget work(work_per_sample * owner.size());
    detail::vector_search<D> search(problem, loads, owner, work, scratch, memory);
    search.run(target);
  }

  friend bool operator==(vector_refine const&, vector_refine const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP
