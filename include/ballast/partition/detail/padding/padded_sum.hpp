// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PADDING_PADDED_SUM_HPP
#define BALLAST_PARTITION_DETAIL_PADDING_PADDED_SUM_HPP

#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstdint>

namespace ballast::inline v0::detail {

/// What a batch costs in which one part of every sample is packed and the other is padded to the
/// largest: sum of packed parts + number of samples x largest padded part.
///
/// Expects     parts are not negative, and n times the largest cost of a sample is below 2^63.
/// Ensures     (1) with nothing padded a sum, with nothing packed the number times the largest
/// Complexity  O(1).
struct padded_sum {
  cost_units packed = 0;   ///< the sum of these parts
  cost_units count = 0;    ///< how many samples
  cost_units largest = 0;  ///< of the padded parts

  constexpr void add(cost_units packed_part, cost_units padded_part) noexcept
  {
    packed += packed_part;
    ++count;
    largest = std::max(largest, padded_part);
  }

  [[nodiscard]] constexpr cost_units load() const noexcept { return packed + count * largest; }

  /// Whether the load is more than this, also where 63 bits do not hold it.
  [[nodiscard]] constexpr bool exceeds(std::int64_t most) const noexcept
  {
    return static_cast<uint128>(packed) +
               static_cast<uint128>(count) * static_cast<uint128>(largest) >
           static_cast<uint128>(most);
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PADDING_PADDED_SUM_HPP
