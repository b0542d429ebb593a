// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_LONGEST_PROCESSING_TIME_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_LONGEST_PROCESSING_TIME_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/priced_sample.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/earliest_vectors.hpp>
#include <ballast/partition/vectors/detail/lightest_vectors.hpp>
#include <ballast/partition/vectors/detail/place_vectors_within_capacity.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

/// LPT in several dimensions: the sample with the largest single cost first, always to the bin, of
/// those with room for it, that then finishes earliest.
///
/// Where a sample finds no room, all are placed anew: `detail::place_vectors_within_capacity`.
///
/// Ensures     (1) every sample that found room has one bin, which it fits; without capacities all
///                 have
///             (2) loads have grown by exactly the costs of the samples each bin now owns
///             (3) equal largest costs go in sample order and equal results to the lowest-numbered
///                 bin, so in one dimension and equal bins without capacities the plan is that of
///                 `longest_processing_time`
///             (4) no bin weighs more than its capacity
/// Complexity  O(n) to sort; O(n (log m + m^(1 - 1/D))) where the bins' loads are spread evenly,
///             O(n m) at worst.
/// Source      R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math.
///             17(2):416-429, 1969; the problem in D dimensions is vector scheduling: C. Chekuri,
///             S. Khanna, "On Multidimensional Packing Problems", SIAM J. Comput. 33(4), 2004.
struct vector_longest_processing_time {
  template <std::size_t D>
  void operator()(vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                  std::span<bin_id> owner, workspace& memory) const
  {
    BALLAST_EXPECTS(!loads.empty());
    BALLAST_EXPECTS(owner.size() == problem.costs.size());
    auto scratch = memory.open();
    std::span<cost_units> const largest = scratch.take<cost_units>(owner.size());
    std::transform(
        problem.costs.begin(), problem.costs.end(), largest.begin(),
        [](cost_vector<D> const& cost) { return *std::max_element(cost.begin(), cost.end()); });
    std::span<priced_sample> const order = scratch.take<priced_sample>(owner.size());
    descending_order_into(order, largest, memory);

    if (problem.one_speed() && problem.any_bin_is_open()) {
      detail::lightest_vectors<D> bins(loads, scratch);
      for (priced_sample const each : order) {
        std::size_t const sample = to_index(each.sample);
        std::size_t const bin = bins.lightest(problem.costs[sample]);
        bins.add(bin, problem.costs[sample]);
        put(problem, sample, bin, loads, owner);
      }
      return;
    }
    std::span<cost_vector<D>> const starts =
        scratch.take<cost_vector<D>>(problem.capacities.size());
    std::copy_n(loads.begin(), starts.size(), starts.begin());
    detail::earliest_vectors<D> bins(problem, loads, scratch);
    for (priced_sample const each : order) {
      std::size_t const sample = to_index(each.sample);
      std::size_t const bin = bins.earliest(sample);
      if (bin == loads.size()) {
        static_cast<void>(
            detail::place_vectors_within_capacity<D>(problem, starts, loads, owner, memory));
        return;
      }
      bins.add(sample, bin);
      put(problem, sample, bin, loads, owner);
    }
  }

  friend bool operator==(vector_longest_processing_time, vector_longest_processing_time) = default;

 private:
  template <std::size_t D>
  static void put(vector_problem<D> const& problem, std::size_t sample, std::size_t bin,
                  std::span<cost_vector<D>> loads, std::span<bin_id> owner)
  {
    owner[sample] = to_id<bin_id>(bin);
    for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_LONGEST_PROCESSING_TIME_HPP
