// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_DUAL_FEASIBLE_BOUND_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_DUAL_FEASIBLE_BOUND_HPP

#include <ballast/core/uint128.hpp>
#include <ballast/core/units.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// Whether a packing bound proves that these costs do not fit into so many bags of this room.
///
/// A function u of [0, 1] is dual feasible when sizes that add up to at most 1 keep doing so after
/// u, so that the sum of u(cost / room) is a number of bags that no packing gets below. Tried are
///   U^e       sizes above 1 - e count as 1, those below e as 0, for every size e up to 1/2,
///   u^k o U^e for k = 2 to `degree`, where u^k(x) is x if (k + 1) x is an integer, and otherwise
///             floor((k + 1) x) / k: it rounds up what is little above a multiple of 1 / (k + 1).
/// With degree 1 this is bound L2 of Martello and Toth.
///
/// Expects     costs do not increase and are not negative; room >= 0; 1 <= degree <= 16.
/// Ensures     (1) true only if no assignment to `bags` bags keeps all loads within `room`
/// Complexity  O(n degree), without scratch.
/// Source      S. P. Fekete, J. Schepers, "New Classes of Fast Lower Bounds for Bin Packing
///             Problems", Mathematical Programming 91(1):11-31, 2001; S. Martello, P. Toth, "Lower
///             Bounds and Reduction Procedures for the Bin Packing Problem", Discrete Applied
///             Mathematics 28(1):59-70, 1990.
[[nodiscard]] inline bool cannot_pack(std::span<cost_units const> costs, cost_units room,
                                      std::size_t bags, unsigned degree) noexcept
{
  if (costs.empty() || costs.front() == 0) { return false; }
  if (costs.front() > room) { return true; }
  std::size_t large = 0;  // above half the room: one to a bag
  while (large < costs.size() && costs[large] > room / 2) { ++large; }
  if (large > bags) { return true; }

  auto const whole = static_cast<uint128>(room);
  for (unsigned k = 1; k <= degree; ++k) {
    // Sizes in units of 1 / (k room).
    auto const rounded = [&](cost_units cost) {
      auto const size = static_cast<uint128>(cost);
      if (k == 1) { return size; }
      unsigned multiple = 0;
      while ((multiple + 1) * whole <= (k + 1) * size) { ++multiple; }
      return multiple * whole == (k + 1) * size ? k * size : multiple * whole;
    };
    // As e falls from 1/2, fewer of the large sizes count as 1 and more of the small ones count.
    std::size_t alone = large;
    uint128 others = 0;
    for (std::size_t last = large; last < costs.size() && costs[last] > 0; ++last) {
      cost_units const least = costs[last];
      others += rounded(least);
      if (last + 1 < costs.size() && costs[last + 1] == least) { continue; }
      while (alone > 0 && costs[alone - 1] <= room - least) { others += rounded(costs[--alone]); }
      if (k * whole * alone + others > k * whole * bags) { return true; }
    }
  }
  return false;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_DUAL_FEASIBLE_BOUND_HPP
