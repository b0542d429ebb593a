// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/quantities.hpp>

#include <bit>
#include <cstdint>
#include <limits>
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

/// Logarithm, exponential and square root in integer arithmetic.
///
/// Those of <cmath> differ in the last bits between libraries, compilers and flags, and one sample
/// whose length differs between two ranks is enough to make them plan differently.
///
/// Units       a binary logarithm is a signed number of 2^-48.
namespace ballast::inline v0::detail::fixed_point {

inline constexpr int log2_bits = 48;
inline constexpr std::int64_t log2_one = std::int64_t{1} << log2_bits;

/// log2(x), rounded down.
///
/// Expects     x >= 1.
/// Ensures     (1) the result is at most 1.01 units below log2(x) and never above it
///             (2) exact for powers of two; non-decreasing in x
/// Complexity  48 multiplications: each squaring of the mantissa yields one bit.
[[nodiscard]] constexpr std::int64_t log2(std::uint64_t x)
{
  BALLAST_EXPECTS(x >= 1);
  int const exponent = static_cast<int>(std::bit_width(x)) - 1;
  std::uint64_t mantissa = x << (63 - exponent);  // 1.63 bits
  std::int64_t result = exponent;
  for (int bit = 0; bit < log2_bits; ++bit) {
    auto const square = static_cast<uint128>(mantissa) * mantissa;  // 2.126 bits
    auto const carry = static_cast<std::uint64_t>(square >> 127);
    mantissa = static_cast<std::uint64_t>(square >> (63 + carry));
    result = result * 2 + static_cast<std::int64_t>(carry);
  }
  return result;
}

/// 2^y, rounded to the nearest integer, and 2^64 - 1 where that is too large for 64 bits.
///
/// Ensures     (1) below 2^64, the result differs from 2^y by at most 1/2 + 2^y * 2^-58
///             (2) exact for whole numbers; non-decreasing in y
/// Complexity  18 multiplications and divisions: the series of exp, by Horner's rule.
[[nodiscard]] constexpr std::uint64_t exp2(std::int64_t y)
{
  std::int64_t const exponent = y >> log2_bits;  // rounds down
  if (exponent >= 64) { return std::numeric_limits<std::uint64_t>::max(); }
  if (exponent < -1) { return 0; }

  // ln(2)^19 / 19! < 2^-66: a further term would change nothing.
  constexpr std::uint64_t ln2 = 0x58b90bfbe8e7bcd5U;  // 63 bits after the point
  constexpr std::uint64_t one = std::uint64_t{1} << 62;
  auto const fraction = static_cast<std::uint64_t>(y & (log2_one - 1));
  auto const x = static_cast<std::uint64_t>(static_cast<uint128>(fraction) * ln2 >> 49);
  std::uint64_t mantissa = one;  // 2.62 bits, as is x
  for (std::uint64_t term = 18; term >= 1; --term) {
    mantissa = one + static_cast<std::uint64_t>(static_cast<uint128>(mantissa) * x >> 62) / term;
  }

  if (exponent >= 62) { return mantissa << (exponent - 62); }
  std::uint64_t const half = std::uint64_t{1} << (61 - exponent);
  return (mantissa + half) >> (62 - exponent);
}

/// The largest integer whose square is at most x.
[[nodiscard]] constexpr std::uint64_t square_root(std::uint64_t x) noexcept
{
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 62; bit != 0; bit >>= 2) {
    if (x >= root + bit) {
      x -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return root;
}

}  // namespace ballast::inline v0::detail::fixed_point
