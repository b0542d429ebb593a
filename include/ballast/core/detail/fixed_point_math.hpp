// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_FIXED_POINT_MATH_HPP
#define BALLAST_CORE_DETAIL_FIXED_POINT_MATH_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/uint128.hpp>

#include <bit>
#include <cstdint>
#include <limits>

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

#endif  // BALLAST_CORE_DETAIL_FIXED_POINT_MATH_HPP
