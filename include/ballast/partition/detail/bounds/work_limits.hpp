// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_WORK_LIMITS_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_WORK_LIMITS_HPP

#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstdint>

namespace ballast::inline v0::detail {

/// The most work with which a bag of this speed finishes by `time`, or the largest load there is.
[[nodiscard]] constexpr cost_units work_until(ratio time, std::uint32_t speed) noexcept
{
  // As where all bags are equally fast: a search asks for every pair of them, and divisions are
  // dear.
  if (time.denominator == speed) { return std::min(time.numerator, no_cost - 1); }
  uint128 const work = static_cast<uint128>(static_cast<std::uint64_t>(time.numerator)) * speed /
                       static_cast<std::uint64_t>(time.denominator);
  return static_cast<cost_units>(std::min(work, static_cast<uint128>(no_cost - 1)));
}

/// The most work with which a bag of this speed finishes before `time`; -1 where it cannot, even
/// without work.
[[nodiscard]] constexpr cost_units work_before(ratio time, std::uint32_t speed) noexcept
{
  cost_units const work = work_until(time, speed);
  return ratio{work, speed} < time ? work : work - 1;
}

/// The mean over some bags of one speed, rounded up: one of them does at least so many whole units.
/// Expects that the denominator is the sum of their speeds.
[[nodiscard]] constexpr ratio whole_units_per_bag(ratio mean, std::uint32_t speed) noexcept
{
  std::int64_t const bags = mean.denominator / speed;
  return {mean.numerator / bags + (mean.numerator % bags != 0 ? 1 : 0), speed};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_WORK_LIMITS_HPP
