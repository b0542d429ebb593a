// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_DUAL_FEASIBLE_BOUND_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_DUAL_FEASIBLE_BOUND_HPP

#include <ballast/core/quantities.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// Calls exceeds(sum, unit) for numbers of bags, sum / unit, that no packing of these costs into
/// bags of this room gets below, until it returns true. Returns whether it did.
///
/// A function u of [0, 1] is dual feasible when sizes that add up to at most 1 keep doing so after
/// u, so that the sum of u(cost / room) is a number of bags that no packing gets below. Tried are
///   U^e       sizes above 1 - e count as 1, those below e as 0, for every size e up to 1/2,
///   u^k o U^e for k = 2 to `degree`, where u^k(x) is x if (k + 1) x is an integer, and otherwise
///             floor((k + 1) x) / k: it rounds up what is little above a multiple of 1 / (k + 1),
///             so that of samples heavier than that at most k fit a bag.
/// With degree 1 this is bound L2 of Martello and Toth.
///
/// Expects     costs do not increase, are not negative and at most room; room > 0; 1 <= degree <=
///             16.
/// Complexity  O(n degree), without scratch.
/// Source      S. P. Fekete, J. Schepers, "New Classes of Fast Lower Bounds for Bin Packing
///             Problems", Mathematical Programming 91(1):11-31, 2001; S. Martello, P. Toth, "Lower
///             Bounds and Reduction Procedures for the Bin Packing Problem", Discrete Applied
///             Mathematics 28(1):59-70, 1990.
template <class Exceeds>
bool any_dual_feasible_sum(std::span<cost_units const> costs, cost_units room, unsigned degree,
                           Exceeds const& exceeds)
{
  std::size_t large = 0;  // above half the room: one to a bag
  while (large < costs.size() && costs[large] > room / 2) { ++large; }
  if (exceeds(uint128{large}, uint128{1})) { return true; }

  auto const whole = static_cast<uint128>(room);
  for (unsigned k = 1; k <= degree; ++k) {
    // Sizes in units of 1 / (k room).
    auto const rounded = [&](cost_units amount) {
      auto const size = static_cast<uint128>(amount);
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
      if (exceeds(k * whole * alone + others, k * whole)) { return true; }
    }
  }
  return false;
}

/// Whether that proves that these costs do not fit into so many bags of this room.
///
/// Expects     costs do not increase and are not negative; room >= 0; 1 <= degree <= 16.
/// Ensures     (1) true only if no assignment to `bags` bags keeps all loads within `room`
[[nodiscard]] inline bool cannot_pack(std::span<cost_units const> costs, cost_units room,
                                      std::size_t bags, unsigned degree) noexcept
{
  if (costs.empty() || costs.front() == 0) { return false; }
  if (costs.front() > room) { return true; }
  return any_dual_feasible_sum(costs, room, degree,
                               [bags](uint128 sum, uint128 unit) { return sum > unit * bags; });
}

/// The largest of these numbers, rounded up, or `known` where that is larger.
///
/// Expects     those of any_dual_feasible_sum.
/// Ensures     (1) no packing into bags of this room has fewer, if none has fewer than `known`
[[nodiscard]] inline std::size_t dual_feasible_bound(std::span<cost_units const> costs,
                                                     cost_units room, unsigned degree,
                                                     std::size_t known)
{
  std::size_t bound = known;
  any_dual_feasible_sum(costs, room, degree, [&bound](uint128 sum, uint128 unit) {
    if (sum > unit * bound) { bound = static_cast<std::size_t>((sum - 1) / unit) + 1; }
    return false;
  });
  return bound;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_DUAL_FEASIBLE_BOUND_HPP
