// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_PACKING_LOWER_BOUND_HPP
#define BALLAST_PARTITION_PACKING_PACKING_LOWER_BOUND_HPP

#include <ballast/partition/detail/bounds/least_bins.hpp>
#include <ballast/partition/packing/concepts.hpp>

#include <cstddef>

namespace ballast::inline v0 {

/// A number of bins that no packing gets below: `least_bins`.
///
/// Expects     a valid packing_problem.
/// Ensures     (1) no packing of whole samples has fewer bins
///             (2) at least 1 where there is a sample, also one of no weight
/// Complexity  O(n).
/// Source      bound L2 of S. Martello, P. Toth, "Lower Bounds and Reduction Procedures for the Bin
///             Packing Problem", Discrete Applied Mathematics 28(1):59-70, 1990.
[[nodiscard]] inline std::size_t packing_lower_bound(packing_problem const& problem) noexcept
{
  return detail::least_bins(problem.heaviest_first, problem.capacity);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PACKING_PACKING_LOWER_BOUND_HPP
