// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_SHARDED_EVENT_HPP
#define BALLAST_ROUTE_SHARDED_EVENT_HPP

#include <ballast/core/quantities.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// What a rank does with one pack of its sequences, in the order in which it does it.
enum class sharded_phase : std::uint8_t {
  begin_to_heads,   ///< packs queries, keys and values, and begins to send and to receive them
  end_to_heads,     ///< waits for them, and unpacks them
  compute,          ///< attention
  begin_to_tokens,  ///< packs the output, and begins to send and to receive it
  end_to_tokens,    ///< waits for it, and unpacks it
};

/// A phase of a rank's pack begins, or it is over. What reads a clock at each event has the
/// timeline of a layer; a rank's phases do not overlap.
struct sharded_event {
  sharded_phase phase{};
  bool is_over = false;
  group_id group{};  ///< whose pack it is

  friend constexpr bool operator==(sharded_event, sharded_event) = default;
};

/// For layers that nobody watches.
struct ignore_sharded_events {
  constexpr void operator()(sharded_event /*event*/) const {}
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_SHARDED_EVENT_HPP
