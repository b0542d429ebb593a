// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/vector_search.hpp>
#include <ballast/partition/vectors/vector_longest_processing_time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Improves another policy's plan until its largest load is the mean, no exchange helps, or the work
/// is spent.
///
/// The largest load of all, that of bin b in dimension d, has to fall. The search tries partners
/// from the lightest in d on. Of all moves of a sample from b and all exchanges of one for one, it
/// makes the one that leaves the two bins' largest load the least, if that is less than what b has
/// now. Where no partner has one, it tries exchanges of two for two in the same manner. Samples are
/// in order of their costs in d, and what an exchange takes off b is bounded from both sides, so it
/// prices few pairs.
///
/// Ensures     (1) every sample has one bin, and loads have changed as the owners have
///             (2) the makespan is not above the inner policy's
///             (3) with no work to spend the plan is the inner policy's
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
    inner(problem, loads, owner, memory);
    cost_units const target = least_possible(problem, loads);
    if (work_per_sample == 0) { return; }

    auto scratch = memory.open();
    detail::work_budget work(work_per_sample * owner.size());
    detail::vector_search<D> search(problem, loads, owner, work, scratch, memory);
    search.run(target);
  }

  friend bool operator==(vector_refine const&, vector_refine const&) = default;

 private:
  /// The mean load, rounded up, or the largest single cost: the most of all dimensions.
  template <std::size_t D>
  [[nodiscard]] static cost_units least_possible(vector_problem<D> const& problem,
                                                 std::span<cost_vector<D>> loads) noexcept
  {
    auto const bins = static_cast<cost_units>(loads.size());
    cost_vector<D> total{};
    cost_units least = 0;
    for (cost_vector<D> const& load : loads) {
      for (std::size_t d = 0; d < D; ++d) { total[d] += load[d]; }
    }
    for (cost_vector<D> const& cost : problem.costs) {
      least = std::max(least, *std::max_element(cost.begin(), cost.end()));
    }
    for (cost_units const work : total) {
      least = std::max(least, work / bins + (work % bins != 0 ? 1 : 0));
    }
    return least;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_REFINE_HPP
