// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_RANK_PAIR_HPP
#define BALLAST_COMM_RANK_PAIR_HPP

#include <ballast/core/quantities.hpp>

#include <compare>

namespace ballast::inline v0 {

/// Two ranks, of which the first sends to the second.
struct rank_pair {
  rank_id from{};
  rank_id to{};

  friend bool operator==(rank_pair const&, rank_pair const&) = default;
  friend std::strong_ordering operator<=>(rank_pair const&, rank_pair const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_RANK_PAIR_HPP
