// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_NUMBERS_HPP
#define BALLAST_REPORT_DETAIL_NUMBERS_HPP

#include <ballast/core/config.hpp>

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string>

namespace ballast::inline v0::detail {

/// Whether `value` is a number: no infinity and no NaN. It reads the bits, because with -ffast-math
/// a compiler may assume that every double is finite and drop a comparison.
[[nodiscard]] inline bool is_finite(double value)
{
  return ((std::bit_cast<std::uint64_t>(value) >> 52) & 0x7FF) != 0x7FF;
}

/// Room for any double in fixed notation: 309 digits, sign, point and 20 decimals.
using digits_buffer = std::array<char, 336>;

/// Appends an integer as JSON, SVG and CSV write it.
inline void append_integer(std::string& out, std::int64_t value)
{
  std::array<char, 20> digits{};
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_NUMBERS_HPP
