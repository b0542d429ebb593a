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

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr uint128 cross(std::int64_t a,
                                                                   std::int64_t b) noexcept
  {
    return static_cast<uint128>(static_cast<std::uint64_t>(a)) * static_cast<std::uint64_t>(b);
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_RATIO_HPP
