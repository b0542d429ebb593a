// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ROW_TRAFFIC_HPP
#define BALLAST_ROUTE_ROW_TRAFFIC_HPP

#include <ballast/core/quantities.hpp>

#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// What the host must know of one rank's part in an exchange of rows; the host need not reach the
/// rows themselves.
///
/// Shapes      sent[ranks], received[ranks]: rows to each peer and from each peer, 0 for the rank
///             itself.
struct row_traffic {
  rank_id rank{};
  tokens rows_before = 0;  ///< of the rank's arrays, before the exchange
  tokens rows_after = 0;   ///< and after it
  std::span<tokens const> sent;
  std::span<tokens const> received;
  std::uint64_t plan = 0;  ///< a word of the plan and its direction, the same on every rank

  /// The traffic of the reverse exchange.
  [[nodiscard]] row_traffic reversed() const
  {
    return {rank, rows_after, rows_before, received, sent, ~plan};
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ROW_TRAFFIC_HPP
