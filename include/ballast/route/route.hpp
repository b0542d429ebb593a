// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ROUTE_HPP
#define BALLAST_ROUTE_ROUTE_HPP

#include <ballast/comm/concepts.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/pack.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>

namespace ballast::inline v0 {

namespace detail {

enum class direction { forward, reverse };

template <communicator C>
[[nodiscard]] result<void> exchange_rows(C& comm, route_plan const& plan, direction way,
                                         std::span<row_array const> arrays, workspace& memory)
{
  BALLAST_EXPECTS(plan.rank == comm.rank() && plan.ranks() == comm.size());
  bool const forward = way == direction::forward;
  for (row_array const& array : arrays) {
    auto const before = static_cast<std::size_t>(forward ? plan.rows_before : plan.rows_after);
    auto const after = static_cast<std::size_t>(forward ? plan.rows_after : plan.rows_before);
    BALLAST_EXPECTS(array.row_bytes >= 1);
    BALLAST_EXPECTS(array.from.size() == before * array.row_bytes);
    BALLAST_EXPECTS(array.to.size() == after * array.row_bytes);
    for (row_array const& other : arrays) {
      BALLAST_EXPECTS(!overlapping(array.to, other.from));
      BALLAST_EXPECTS(&array == &other || !overlapping(array.to, other.to));
    }
  }
  route_table const& out = forward ? plan.sent : plan.received;
  route_table const& back = forward ? plan.received : plan.sent;

  auto scratch = memory.open();
  std::span<std::size_t> const sent = scratch.take<std::size_t>(comm.size());
  std::span<std::size_t> const received = scratch.take<std::size_t>(comm.size());
  message_bytes(out, arrays, sent);
  message_bytes(back, arrays, received);
  std::size_t const all_sent = std::reduce(sent.begin(), sent.end());
  std::size_t const all_received = std::reduce(received.begin(), received.end());

  std::span<std::byte> const messages = comm.scratch(all_sent + all_received);
  std::span<std::byte> const outgoing = messages.first(all_sent);
  std::span<std::byte> const incoming = messages.subspan(all_sent, all_received);
  pack_rows(out, arrays, outgoing);
  if (auto moved = comm.all_to_all_v(outgoing, sent, incoming, received); !moved) { return moved; }
  for (row_array const& array : arrays) {  // while a queue is at work
    for (kept_rows const kept : plan.kept) {
      auto const from = static_cast<std::size_t>(forward ? kept.from_row : kept.to_row);
      auto const to = static_cast<std::size_t>(forward ? kept.to_row : kept.from_row);
      std::memcpy(&array.to[to * array.row_bytes], &array.from[from * array.row_bytes],
                  static_cast<std::size_t>(kept.count) * array.row_bytes);
    }
  }
  if (auto done = comm.wait(); !done) { return done; }
  unpack_rows(back, arrays, incoming);
  return {};
}

}  // namespace detail

/// Moves arrays along a route, all of them in one all-to-all.
///
///     route(comm, plan, memory, rows_of(x, y, 3072), rows_of(tag, tag_y))
///
/// Collective: every rank calls it with its own plan of the same two placements and with arrays of
/// the same row widths. Rows that stay on their rank are copied once and enter no message.
///
/// Shapes      each array: from[plan.rows_before], to[plan.rows_after] rows.
/// Expects     the plan is of this rank; arrays in memory that the host reaches; no `to` overlaps
///             another array.
/// Ensures     (1) every token's row is where the plan's second placement says, byte for byte; rows
///                 without a token, between parts of samples, are left as they were
///             (2) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v and wait; `to` is then unspecified, `from`
///             as before. Different plans whose messages are as long are not noticed here: compare
///             digests by agree() once a step.
/// Complexity  O(ranks + ranges x arrays) and each byte copied twice on either side, once if kept;
///             comm.scratch holds all messages, which is the peak of extra memory, so that what the
///             caller has there is lost.
template <communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> route(C& comm, route_plan const& plan, workspace& memory,
                                 Arrays const&... arrays)
{
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_rows(comm, plan, detail::direction::forward, all, memory);
}

/// Moves arrays back along a route: the exact inverse. It is also the gradient of the route, since
/// a permutation's transpose is its inverse, as route() is the gradient of reverse_route().
///
/// Shapes      each array: from[plan.rows_after], to[plan.rows_before] rows.
/// The rest is as for route().
template <communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> reverse_route(C& comm, route_plan const& plan, workspace& memory,
                                         Arrays const&... arrays)
{
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_rows(comm, plan, detail::direction::reverse, all, memory);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ROUTE_HPP
