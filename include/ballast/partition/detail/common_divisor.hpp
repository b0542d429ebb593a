// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_COMMON_DIVISOR_HPP
#define BALLAST_PARTITION_DETAIL_COMMON_DIVISOR_HPP

#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// The largest number that divides all of these and `divisor`; 0 where all are 0.
///
/// Complexity  O(n), and for values as measured a few steps: it ends at 1.
[[nodiscard]] inline std::int64_t common_divisor(std::span<std::int64_t const> values,
                                                 std::int64_t divisor = 0) noexcept
{
  for (std::size_t next = 0; next < values.size() && divisor != 1; ++next) {
    divisor = std::gcd(divisor, values[next]);
  }
  return divisor;
}

/// Values in units of a number that divides them; the frame has room for them in any case, so that
/// a later step takes no more.
///
/// Lengths are often multiples of 64 or 256, and costs then too. A planner that knows it rounds its
/// bounds to whole multiples, and meets them: it proves in microseconds what it else cannot.
[[nodiscard]] inline std::span<std::int64_t const> divided(std::span<std::int64_t const> values,
                                                           std::int64_t divisor,
                                                           workspace::frame& scratch)
{
  std::span<std::int64_t> const quotients = scratch.take<std::int64_t>(values.size());
  if (divisor <= 1) { return values; }
  std::transform(values.begin(), values.end(), quotients.begin(),
                 [divisor](std::int64_t value) { return value / divisor; });
  return quotients;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_COMMON_DIVISOR_HPP
