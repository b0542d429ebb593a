// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_COUNTS_BALANCED_COUNTS_HPP
#define BALLAST_PARTITION_DETAIL_COUNTS_BALANCED_COUNTS_HPP

#include <ballast/core/contract.hpp>
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
/// The fastest bags get the larger counts, then the least loaded, then the first, as far as samples
/// are long enough for them. Where too few samples are long enough for the larger bags to get as
/// many as the others, the larger bags share these evenly and the smaller bags share the rest: the
/// most even counts that a plan can have. With bags in decreasing size, the sums of such counts are
/// the lower convex hull of the numbers of samples that fit the first bags.
///
/// Shapes      loads[m], counts[m].
/// Expects     a valid partition_problem; multiple >= 1.
/// Ensures     (1) the counts add up to n, and some assignment of samples to bags that they fit has
///                 them
///             (2) all counts but one are multiples of `multiple`
///             (3) counts of bags of one size differ by at most `multiple`, and those of all bags
///                 do where every sample fits every bag
/// Complexity  O((n + m) log m + m sizes); 32 m bytes of scratch.
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
    return precedes(problem.gpus[b], problem.gpus[a], a, b);
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
  // The places after the last bag of each size. Bags before them have so many samples at most.
  std::span<std::uint32_t> const all_ends = scratch.take<std::uint32_t>(bags);
  std::size_t sizes = 0;
  for (std::uint32_t place = 1; place <= bags; ++place) {
    if (place == bags ||
        problem.gpus[largest_first[place]] != problem.gpus[largest_first[place - 1]]) {
      all_ends[sizes++] = place;
    }
  }
  std::span<std::uint32_t const> const ends = all_ends.first(sizes);
  // room[k]: samples that the bags before ends[k] could still have.
  std::span<std::uint64_t> const room = scratch.take<std::uint64_t>(sizes);
  for (std::size_t end = 0; end < sizes; ++end) { room[end] = fitting[ends[end]]; }
  std::fill(counts.begin(), counts.end(), 0);
  auto const give = [&](std::uint32_t place, std::uint64_t samples) {
    auto const end = std::upper_bound(ends.begin(), ends.end(), place) - ends.begin();
    auto const from_here = room.subspan(static_cast<std::size_t>(end));
    if (*std::min_element(from_here.begin(), from_here.end()) < samples) { return false; }
    for (std::uint64_t& each : from_here) { each -= samples; }
    counts[largest_first[place]] += static_cast<std::uint32_t>(samples);
    return true;
  };

  std::span<std::uint32_t> const places = scratch.take<std::uint32_t>(bags);
  std::iota(places.begin(), places.end(), std::uint32_t{0});
  for (std::size_t first = 0; first < bags;) {
    std::uint64_t const before = first == 0 ? 0 : fitting[first] / multiple;
    std::size_t last = bags;
    for (std::size_t end = sizes; end > 0 && ends[end - 1] > first; --end) {
      std::size_t const place = ends[end - 1];
      bool const flatter = (fitting[place] / multiple - before) * (last - first) <
                           (fitting[last] / multiple - before) * (place - first);
      if (flatter) { last = place; }
    }
    std::uint64_t const share = fitting[last] / multiple - before;
    std::span<std::uint32_t> const fastest_first = places.subspan(first, last - first);
    for (std::uint32_t const place : fastest_first) {
      (void)give(place, share / fastest_first.size() * multiple);
    }
    std::sort(fastest_first.begin(), fastest_first.end(), [&](std::uint32_t p, std::uint32_t q) {
      std::uint32_t const a = largest_first[p];
      std::uint32_t const b = largest_first[q];
      return precedes(problem.speeds[b], problem.speeds[a], loads[a], loads[b], a, b);
    });
    std::uint64_t more = share % fastest_first.size();
    std::uint64_t rest = last == bags ? fitting[bags] % multiple : 0;
    for (std::uint32_t const place : fastest_first) {
      if (more > 0 && give(place, multiple)) {
        --more;
      } else if (more == 0 && rest > 0 && give(place, rest)) {
        rest = 0;
      }
    }
    if (rest > 0) { (void)give(static_cast<std::uint32_t>(bags - 1), rest); }
    first = last;
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_COUNTS_BALANCED_COUNTS_HPP
