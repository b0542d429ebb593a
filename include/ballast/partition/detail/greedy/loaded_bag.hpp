// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_GREEDY_LOADED_BAG_HPP
#define BALLAST_PARTITION_DETAIL_GREEDY_LOADED_BAG_HPP

#include <ballast/core/quantities.hpp>

#include <cstdint>

namespace ballast::inline v0::detail {

/// A bag as greedy policies see it: ordered by load, then by number.
struct loaded_bag {
  cost_units load;
  std::uint32_t index;

  friend constexpr bool operator<(loaded_bag a, loaded_bag b) noexcept
  {
    // Bitwise: which side is less is random, and a branch would be mispredicted half of the time.
    return static_cast<bool>(
        static_cast<int>(a.load < b.load) |
        (static_cast<int>(a.load == b.load) & static_cast<int>(a.index < b.index)));
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_GREEDY_LOADED_BAG_HPP
