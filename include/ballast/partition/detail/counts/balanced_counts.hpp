// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_COUNTS_BALANCED_COUNTS_HPP
#define BALLAST_PARTITION_DETAIL_COUNTS_BALANCED_COUNTS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// How many samples each bag gets, where all bags should get the same number.
///
/// Counts are multiples of `multiple`, as even as that allows; what is left of n goes to one bag.
/// Of bags of one size, the fastest get the larger counts, then the least loaded, then the first.
/// Where too few samples are long enough for the larger bags to get as many as the others, the
/// larger bags share these evenly and the smaller bags share the rest: the most even counts that a
/// plan can have. With bags in decreasing size, the sums of such counts are the lower convex hull
/// of the numbers of samples that fit the first bags.
///
/// Shapes      loads[m], counts[m].
/// Expects     a valid partition_problem; multiple >= 1.
/// Ensures     (1) the counts add up to n, and some assignment of samples to bags that they fit has
///                 them
///             (2) all counts but one are multiples of `multiple`
///             (3) counts of bags of one size differ by at most `multiple`, and those of all bags
///                 do where every sample fits every bag
/// Complexity  O((n + m) log m + m sizes); 24 m bytes of scratch.
inline void balanced_counts_into(std::span<std::uint32_t> counts, partition_problem const& problem,
                                 std::span<cost_units const> loads, std::uint32_t multiple,
                                 workspace& memory)
{
  std::size_t const bags = counts.size();
  BALLAST_EXPECTS(bags >= 1 && loads.size() == bags && problem.gpus.size() == bags);
  BALLAST_EXPECTS(multiple >= 1);
  auto scratch = memory.open();

  std::span<std::uint32_t> const largest_first = scratch.take<std::uint32_t>(bags);
  std::iota(largest_first.begin(), largest_first.end(), std::uint32_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::uint32_t a, std::uint32_t b) {
    return precedes(problem.gpus[b], problem.gpus[a], problem.speeds[a], problem.speeds[b],
                    loads[b], loads[a], b, a);
  });
  // fitting[p]: the samples that fit the first p bags, for every p at which a size ends.
  std::span<std::uint64_t> const fitting = scratch.take<std::uint64_t>(bags + 1);
  std::fill(fitting.begin(), fitting.end(), 0);
  if (problem.gpus[largest_first.front()] == problem.gpus[largest_first.back()]) {
    fitting[bags] = problem.lengths.size();
  } else {
    for (tokens const length : problem.lengths) {
      auto const usable = std::partition_point(
          largest_first.begin(), largest_first.end(),
          [&](std::uint32_t bag) { return !partition_problem::splits(length, problem.gpus[bag]); });
      ++fitting[static_cast<std::size_t>(usable - largest_first.begin()) + 1];
    }
    for (std::size_t place = 0; place < bags; ++place) { fitting[place + 1] += fitting[place]; }
  }
  auto const ends_a_size = [&](std::size_t place) {
    return place == bags ||
           problem.gpus[largest_first[place]] != problem.gpus[largest_first[place - 1]];
  };

  for (std::size_t first = 0; first < bags;) {
    std::uint64_t const before = first == 0 ? 0 : fitting[first] / multiple;
    std::size_t last = bags;
    for (std::size_t place = bags; place > first; --place) {
      if (!ends_a_size(place)) { continue; }
      bool const flatter = (fitting[place] / multiple - before) * (last - first) <
                           (fitting[last] / multiple - before) * (place - first);
      if (flatter) { last = place; }
    }
    std::uint64_t const share = fitting[last] / multiple - before;
    std::size_t const larger = last - share % (last - first);  // from here on, one more
    for (std::size_t place = first; place < last; ++place) {
      std::uint64_t const units = share / (last - first) + (place >= larger ? 1 : 0);
      counts[largest_first[place]] = static_cast<std::uint32_t>(units * multiple);
    }
    if (last == bags && fitting[bags] % multiple != 0) {
      // One of the smaller counts takes the rest: the last one that leaves every larger size enough
      // samples that fit it.
      std::size_t taker = bags - 1;
      std::uint64_t up_to_here = fitting[bags];
      for (std::size_t place = bags; place-- > first;) {
        if (place < larger) {
          taker = place;
          break;
        }
        up_to_here -= counts[largest_first[place]];
        if (place == first || (ends_a_size(place) && up_to_here > fitting[place])) { break; }
      }
      counts[largest_first[taker]] += static_cast<std::uint32_t>(fitting[bags] % multiple);
    }
    first = last;
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_COUNTS_BALANCED_COUNTS_HPP
