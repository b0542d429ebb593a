// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What `longest_processing_time` does.
BALLAST_ONCE void assign_longest_first(partition_problem const& problem,
                                       std::span<cost_units> loads, std::span<bag_id> owner,
                                       workspace& memory);

/// What `longest_processing_time` does by several quantities.
template <std::size_t D>
void assign_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                    std::span<bag_id> owner, workspace& memory);

}  // namespace detail

/// Heaviest sample first, each to the bag that would finish it earliest.
///
/// With bags of one kind that is the lightest bag; with several sizes or speeds the one with the
/// least (load + cost) / speed, among the bags that the sample fits.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) from empty bags of one size, makespan <= (4/3 - 1/(3m)) * optimum
///             (4) equal costs go in sample order and equal finishing times to the smaller, then to
///                 the slower, then to the lower-numbered bag
/// Complexity  after the sort that the problem brings O(n) for most steps with bags of one kind,
///             which are assigned in rounds, and otherwise O(n (kinds + log m)).
/// Source      R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM J. Appl. Math.
///             17(2):416-429, 1969; on bags of several sizes T. Gonzalez, O. H. Ibarra, S. Sahni,
///             "Bounds for LPT Schedules on Uniform Processors", SIAM J. Comput. 6(1), 1977.
///
/// **By several quantities** the sample with the largest single cost goes first, always to the bag,
/// that it fits, that then finishes earliest in the dimension in which it is latest.
///
/// Ensures     (5) those of (1) and (2)
///             (6) equal largest costs go in sample order and equal results to the lowest-numbered
///                 bag, so by one quantity and equal bags the plan is the one of that quantity alone
/// Complexity  O(n) to sort; O(n (log m + m^(1 - 1/D))) where the bags' loads are spread evenly,
///             O(n m) at worst.
/// Source      the problem in D dimensions is vector scheduling: C. Chekuri, S. Khanna, "On
///             Multidimensional Packing Problems", SIAM J. Comput. 33(4), 2004.
struct longest_processing_time {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::assign_longest_first(problem, loads, owner, memory);
  }

  template <std::size_t D>
  void operator()(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::assign_vectors<D>(problem, loads, owner, memory);
  }

  /// How much a search within limits may do; equal counts do not begin with this plan.
  [[nodiscard]] static constexpr std::uint64_t work_within_limits() noexcept { return 2'000'000; }

  friend bool operator==(longest_processing_time, longest_processing_time) = default;
};

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/partition/detail/greedy/longest_first.hpp>
#endif
