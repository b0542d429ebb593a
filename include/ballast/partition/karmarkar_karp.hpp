// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_KARMARKAR_KARP_HPP
#define BALLAST_PARTITION_KARMARKAR_KARP_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/greedy/differenced_groups.hpp>
#include <ballast/partition/detail/greedy/lightest_bags.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/longest_processing_time.hpp>

#include <span>

namespace ballast::inline v0 {

/// The largest differencing method: the two partial plans whose loads differ most are merged, the
/// heaviest group of one with the lightest of the other, until one plan is left.
///
/// Longest processing time decides the bag of every sample at once. This policy only decides which
/// samples are in different bags, so that differences cancel; on average it is far closer to the
/// optimum. What bags have at the start is one more partial plan. Any group may go to any bag, so
/// bags have to be of one kind: with several sizes or speeds this is longest_processing_time.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by exactly the costs of the samples each bag now owns
///             (3) from empty bags of one kind, makespan <= (4/3 - 1/(3m)) * optimum, and with two
///                 bags 7/6 * optimum
///             (4) equal costs go in sample order; of partial plans with equal differences the one
///                 with the older part merges first, samples last
/// Complexity  O(n log(n + m)) after the sort that the problem brings, O(m) at a time; at most
///             20 (n + m) bytes of scratch.
/// Source      N. Karmarkar, R. M. Karp, "The Differencing Method of Set Partitioning", UCB/CSD
///             82/113, 1982; (3) M. Fischetti, S. Martello, "Worst-Case Analysis of the
///             Differencing Method for the Partition Problem", Math. Programming 37, 1987, and W.
///             Michiels, J. Korst, E. Aarts, J. van Leeuwen, "Performance Ratios for the
///             Karmarkar-Karp Differencing Method", J. Combinatorial Optimization 13(1):19-32,
///             2007.
struct karmarkar_karp {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    if (!detail::one_kind_of_bags(problem)) {
      longest_processing_time{}(problem, loads, owner, memory);
      return;
    }
    auto scratch = memory.open();
    detail::differenced_groups groups(problem.heaviest_first, loads, scratch);
    groups.merge_all();
    groups.store(loads, owner);
  }

  friend bool operator==(karmarkar_karp, karmarkar_karp) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_KARMARKAR_KARP_HPP
