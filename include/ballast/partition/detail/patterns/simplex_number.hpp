// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_SIMPLEX_NUMBER_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_SIMPLEX_NUMBER_HPP

#include <ballast/core/contract.hpp>

#include <cstdint>

namespace ballast::inline v0::detail {

__extension__ typedef __int128 int128;  // `using` cannot carry __extension__

/// Numbers of linear programs: integers in units of 2^-28, equal on all compilers and processors.
struct simplex_number {
  static constexpr int fraction_bits = 28;
  static constexpr std::int64_t one = std::int64_t{1} << fraction_bits;
  /// Numbers that are as large are results of errors.
  static constexpr std::int64_t limit = std::int64_t{1} << 44;

  [[nodiscard]] static constexpr std::int64_t product(std::int64_t a, std::int64_t b) noexcept
  {
    return static_cast<std::int64_t>((static_cast<int128>(a) * b + one / 2) >> fraction_bits);
  }
  [[nodiscard]] static constexpr int128 quotient(std::int64_t a, std::int64_t b) noexcept
  {
    return static_cast<int128>(a) * one / b;
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_SIMPLEX_NUMBER_HPP
