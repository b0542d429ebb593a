// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_WHOLE_UNITS_BOUND_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_WHOLE_UNITS_BOUND_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The least time from `bound` on in which bags of these speeds do this much work in whole units.
///
/// By the mean, every bag works until the end. But loads are integers: a bag of speed s does no
/// more than floor(T s) in the time T. The sum of these grows at times k / s only, so the search
/// goes from one such time to the next until the sum is enough.
///
/// Expects     at least one bag; bound >= work / sum of speeds.
/// Ensures     (1) sum of floor(T speeds[b]) >= work at the T returned and at no T from bound to it
/// Complexity  O(m + d log m), where d < m is what the sum lacks at `bound`; 24 m bytes of scratch.
[[nodiscard]] inline ratio whole_units_bound(std::span<std::uint32_t const> speeds, cost_units work,
                                             ratio bound, workspace& memory)
{
  struct next_unit {
    ratio time;
    std::uint32_t speed;
  };
  auto scratch = memory.open();
  std::span<next_unit> const heap = scratch.take<next_unit>(speeds.size());
  uint128 done = 0;
  for (std::size_t bag = 0; bag < speeds.size(); ++bag) {
    uint128 const units = static_cast<uint128>(static_cast<std::uint64_t>(bound.numerator)) *
                          speeds[bag] / static_cast<std::uint64_t>(bound.denominator);
    done += units;
    // A bag that has done more than all of the work needs no next unit.
    auto const next = static_cast<cost_units>(std::min<uint128>(units, static_cast<uint128>(work)));
    heap[bag] = {{next + 1, speeds[bag]}, speeds[bag]};
  }
  // Equal times may have several forms; which is first must not depend on the standard library.
  auto const later = [](next_unit const& a, next_unit const& b) {
    return a.time == b.time ? a.speed > b.speed : a.time > b.time;
  };
  if (done < static_cast<uint128>(work)) { std::make_heap(heap.begin(), heap.end(), later); }
  for (; done < static_cast<uint128>(work); ++done) {
    std::pop_heap(heap.begin(), heap.end(), later);
    bound = heap.back().time;
    ++heap.back().time.numerator;
    std::push_heap(heap.begin(), heap.end(), later);
  }
  return bound;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_WHOLE_UNITS_BOUND_HPP
