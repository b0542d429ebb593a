// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_RATIO_HPP
#define BALLAST_CORE_RATIO_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/uint128.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// An exact fraction, compared without rounding: work per GPU, where the number of GPUs differs.
///
/// Expects     numerator >= 0 and denominator >= 1.
/// Ensures     (1) the order is that of the rational numbers, so 1/2 and 2/4 are equivalent
///             (2) no comparison overflows: products are taken in 128 bits
struct ratio {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr double value() const noexcept
  {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }

  friend BALLAST_HOST_DEVICE constexpr bool operator<(ratio a, ratio b) noexcept
  {
    return cross(a.numerator, b.denominator) < cross(b.numerator, a.denominator);
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator==(ratio a, ratio b) noexcept
  {
    return cross(a.numerator, b.denominator) == cross(b.numerator, a.denominator);
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator>(ratio a, ratio b) noexcept { return b < a; }
  friend BALLAST_HOST_DEVICE constexpr bool operator<=(ratio a, ratio b) noexcept
  {
    return !(b < a);
  }
  friend BALLAST_HOST_DEVICE constexpr bool operator>=(ratio a, ratio b) noexcept
  {
    return !(a < b);
  }

  /// How far a value is above a bound: value / bound - 1, and 0 where they are equal. Plans report
  /// it of their makespan. Expects value >= bound.
  [[nodiscard]] friend constexpr double gap_above(ratio value, ratio bound) noexcept
  {
    uint128 const whole = cross(bound.numerator, value.denominator);
    uint128 const excess = cross(value.numerator, bound.denominator) - whole;
    return excess == 0 ? 0.0 : static_cast<double>(excess) / static_cast<double>(whole);
  }

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr uint128 cross(std::int64_t a,
                                                                   std::int64_t b) noexcept
  {
    return static_cast<uint128>(static_cast<std::uint64_t>(a)) * static_cast<std::uint64_t>(b);
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_RATIO_HPP
