// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_LEAST_BINS_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_LEAST_BINS_HPP

#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// A number of bins of one capacity that no packing of these weights gets below.
///
/// For a threshold t from 0 to half the capacity C, count the samples heavier than C - t, which
/// share a bin with no sample of weight t or more; those between C / 2 and C - t, one to a bin; and
/// how many bins more the samples from t to C / 2 need after they fill what those leave. The bound
/// is the largest count over all t; at t = 0 it is at least the sum over C, rounded up.
///
/// Expects     weights sorted as by `descending_order_into`, none above the capacity.
/// Complexity  O(n).
/// Source      bound L2 of S. Martello, P. Toth, "Lower Bounds and Reduction Procedures for the Bin
///             Packing Problem", Discrete Applied Mathematics 28(1):59-70, 1990.
[[nodiscard]] inline std::size_t least_bins(std::span<priced_sample const> heaviest_first,
                                            std::int64_t capacity) noexcept
{
  std::size_t bound = heaviest_first.empty() ? 0 : 1;

  std::size_t large = 0;  // heavier than half the capacity: one to a bin
  while (large < heaviest_first.size() && heaviest_first[large].cost > capacity / 2) { ++large; }
  bound = std::max(bound, large);

  // As t falls from half the capacity, more large samples leave room for one of weight t, and more
  // small ones reach t. It is enough to try the weights of small samples, each at the last of
  // equals.
  std::size_t alone = large;  // heaviest_first[0, alone) is heavier than C - t
  std::int64_t room = 0;      // that the other large samples leave
  std::int64_t small = 0;     // weight of the samples from t to C / 2
  for (std::size_t last = large; last < heaviest_first.size(); ++last) {
    std::int64_t const least = heaviest_first[last].cost;
    small += least;
    if (last + 1 < heaviest_first.size() && heaviest_first[last + 1].cost == least) { continue; }
    while (alone > 0 && heaviest_first[alone - 1].cost <= capacity - least) {
      room += capacity - heaviest_first[--alone].cost;
    }
    if (small > room) {
      bound = std::max(bound, large + static_cast<std::size_t>((small - room - 1) / capacity + 1));
    }
  }
  return bound;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_LEAST_BINS_HPP
