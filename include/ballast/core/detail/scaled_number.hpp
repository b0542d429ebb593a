// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_SCALED_NUMBER_HPP
#define BALLAST_CORE_DETAIL_SCALED_NUMBER_HPP

#include <ballast/core/uint128.hpp>

#include <bit>
#include <cstdint>
#include <optional>

namespace ballast::inline v0::detail {

/// A number that is not negative, held as integers: m * 2^e with m in [2^63, 2^64), or zero.
///
/// Fitted and measured coefficients are multiplied and rounded in this form, on their way to
/// fixed-point numbers, because a compiler may contract, reassociate or flush floating-point
/// arithmetic, and no two ranks may differ in one bit.
///
/// Ensures     (1) an integer or a double is represented exactly; from() returns nothing for
///                 NaN, infinity and negative doubles, also under -ffast-math; -0.0 is zero
///             (2) a product is never too large and too small by less than one part in 2^63; it is
///                 exact where it has no more than 64 significant bits
///             (3) rounded() is the nearest integer, halves up; nothing from 2^64 on
/// Complexity  O(1).
class scaled_number {
 public:
  constexpr scaled_number() = default;

  explicit constexpr scaled_number(std::uint64_t value) : scaled_number(value, 0) {}

  [[nodiscard]] static constexpr std::optional<scaled_number> from(double value)
  {
    auto const bits = std::bit_cast<std::uint64_t>(value);
    std::uint64_t const fraction = bits & ((std::uint64_t{1} << 52) - 1);
    auto const exponent = static_cast<int>((bits >> 52) & 0x7ff);
    bool const negative = (bits >> 63) != 0 && (bits << 1) != 0;
    if (negative || exponent == 0x7ff) { return std::nullopt; }
    if (exponent == 0) { return scaled_number(fraction, -1074); }
    return scaled_number(fraction | (std::uint64_t{1} << 52), exponent - 1075);
  }

  /// This number times 2^power.
  [[nodiscard]] constexpr scaled_number shifted(int power) const
  {
    return {mantissa_, exponent_ + power};
  }

  /// The position of the highest bit; for zero, less than that of any product of four doubles.
  [[nodiscard]] constexpr int floor_log2() const { return exponent_ + 63; }

  [[nodiscard]] constexpr std::optional<std::uint64_t> rounded() const
  {
    if (exponent_ > 0) { return std::nullopt; }
    if (exponent_ < -64) { return 0; }
    uint128 const half = (uint128{1} << -exponent_) >> 1;
    return static_cast<std::uint64_t>((mantissa_ + half) >> -exponent_);
  }

  friend constexpr scaled_number operator*(scaled_number a, scaled_number b)
  {
    uint128 const product = static_cast<uint128>(a.mantissa_) * b.mantissa_;
    int const shift = (product >> 127) != 0 ? 64 : 63;
    return {static_cast<std::uint64_t>(product >> shift), a.exponent_ + b.exponent_ + shift};
  }

  friend bool operator==(scaled_number const&, scaled_number const&) = default;

 private:
  constexpr scaled_number(std::uint64_t value, int exponent)
  {
    if (value == 0) { return; }
    int const zeros = std::countl_zero(value);
    mantissa_ = value << zeros;
    exponent_ = exponent - zeros;
  }

  std::uint64_t mantissa_ = 0;
  int exponent_ = -8192;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_SCALED_NUMBER_HPP
