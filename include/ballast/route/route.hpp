// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ROUTE_HPP
#define BALLAST_ROUTE_ROUTE_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/detail/exchange.hpp>
#include <ballast/route/pack_rows.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/route/row_traffic.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>

namespace ballast::inline v0 {

namespace detail {

enum class route_direction { forward, reverse };

inline void check_rows(row_traffic const& traffic, std::span<row_array const> arrays)
{
  for (row_array const& array : arrays) {
    auto const number = &array - arrays.data();
    BALLAST_EXPECTS(array.row_bytes >= 1, "array ", number, " has rows of no bytes");
    BALLAST_EXPECTS(
        array.from.size() == static_cast<std::size_t>(traffic.rows_before) * array.row_bytes,
        "array ", number, " has ", counted(array.from.size(), "byte"), " in `from`, and rank ",
        traffic.rank, " has ", counted(traffic.rows_before, "row"), " of ",
        counted(array.row_bytes, "byte"), " before the exchange");
    BALLAST_EXPECTS(
        array.to.size() == static_cast<std::size_t>(traffic.rows_after) * array.row_bytes, "array ",
        number, " has ", counted(array.to.size(), "byte"), " in `to`, and rank ", traffic.rank,
        " has ", counted(traffic.rows_after, "row"), " of ", counted(array.row_bytes, "byte"),
        " after the exchange");
    for (row_array const& other : arrays) {
      BALLAST_EXPECTS(!overlapping(array.to, other.from), "`to` of array ", number,
                      " overlaps `from` of array ", &other - arrays.data());
      BALLAST_EXPECTS(&array == &other || !overlapping(array.to, other.to), "`to` of array ",
                      number, " overlaps `to` of array ", &other - arrays.data());
    }
  }
}

/// An exchange of rows. The mover copies the rows of these arrays, in the direction of `traffic`.
template <communicator C, exchange_mover Mover>
[[nodiscard]] result<void> exchange_rows(C& comm, row_traffic const& traffic,
                                         std::span<row_array const> arrays, workspace& memory,
                                         Mover mover)
{
  BALLAST_EXPECTS(traffic.rank == comm.rank() && traffic.sent.size() == comm.size(),
                  "the route is that of rank ", traffic.rank, " of ", traffic.sent.size(),
                  ", and the communicator that of rank ", comm.rank(), " of ", comm.size());
  check_rows(traffic, arrays);
  auto const sizes = [&](std::span<std::size_t> sent, std::span<std::size_t> received) {
    message_bytes(traffic.sent, arrays, sent);
    message_bytes(traffic.received, arrays, received);
  };
  return run_exchange(comm, memory, content_word(traffic.plan, word_of(arrays)), sizes, mover);
}

/// Copies the rows that stay on their rank.
inline void keep_rows(route_plan const& plan, bool forward, std::span<row_array const> arrays)
{
  for (row_array const& array : arrays) {
    for (kept_rows const kept : plan.kept) {
      auto const from = static_cast<std::size_t>(forward ? kept.from_row : kept.to_row);
      auto const to = static_cast<std::size_t>(forward ? kept.to_row : kept.from_row);
      std::memcpy(&array.to[to * array.row_bytes], &array.from[from * array.row_bytes],
                  static_cast<std::size_t>(kept.count) * array.row_bytes);
    }
  }
}

/// Copies rows on the host.
template <communicator C>
class host_row_mover : public host_messages<C> {
 public:
  host_row_mover(C& comm, route_plan const& plan, route_direction direction,
                 std::span<row_array const> arrays)
      : host_messages<C>(comm),
        plan_(plan),
        forward_(direction == route_direction::forward),
        arrays_(arrays)
  {}

  [[nodiscard]] result<void> pack(std::span<std::byte> outgoing) const
  {
    pack_rows(forward_ ? plan_.sent : plan_.received, arrays_, outgoing);
    return {};
  }

  [[nodiscard]] result<void> keep() const
  {
    keep_rows(plan_, forward_, arrays_);
    return {};
  }

  [[nodiscard]] result<void> unpack(std::span<std::byte const> incoming) const
  {
    unpack_rows(forward_ ? plan_.received : plan_.sent, arrays_, incoming);
    return {};
  }

 private:
  route_plan const& plan_;
  bool forward_;
  std::span<row_array const> arrays_;
};

template <communicator C>
[[nodiscard]] result<void> route_on_host(C& comm, route_plan const& plan, route_direction direction,
                                         std::span<row_array const> arrays, workspace& memory)
{
  row_traffic const forward{plan.rank,        plan.rows_before,     plan.rows_after,
                            plan.sent.rows(), plan.received.rows(), plan.word};
  return exchange_rows(comm, direction == route_direction::forward ? forward : forward.reversed(),
                       arrays, memory, host_row_mover<C>(comm, plan, direction, arrays));
}

}  // namespace detail

/// Moves arrays along a route: all arrays in one all-to-all.
///
///     route(comm, plan, memory, rows_of(x, y, 3072), rows_of(tag, tag_y))
///
/// Collective: every rank calls it with its own plan, of the same two placements, and with arrays
/// of the same element and row widths. Rows that stay on their rank are copied once and are in no
/// message.
///
/// Shapes      each array: from[plan.rows_before], to[plan.rows_after] rows.
/// Expects     the plan is of this rank; arrays in memory that the host reaches; no `to` overlaps
///             another array.
/// Ensures     (1) every token's row is where the plan's second placement says, byte for byte; rows
///                 without a token, between parts of samples, are unchanged
///             (2) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v and wait; then `to` is unspecified and
///             `from` unchanged. Where the communicator compares sizes it compares plans and widths
///             too: mismatch on every rank.
/// Complexity  O(ranks + ranges x arrays); each byte is copied once on either side of the
///             all-to-all, a kept byte once. comm.scratch holds all messages, which is the peak of
///             extra memory, and overwrites what the caller has there.
template <communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> route(C& comm, route_plan const& plan, workspace& memory,
                                 Arrays const&... arrays)
{
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::route_on_host(comm, plan, detail::route_direction::forward, all, memory);
}

/// Moves arrays back along a route: the exact inverse. It is also the gradient of the route, since
/// the transpose of a permutation is its inverse; and route() is the gradient of reverse_route().
///
/// Shapes      each array: from[plan.rows_after], to[plan.rows_before] rows.
/// The rest is as for route().
template <communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> reverse_route(C& comm, route_plan const& plan, workspace& memory,
                                         Arrays const&... arrays)
{
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::route_on_host(comm, plan, detail::route_direction::reverse, all, memory);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ROUTE_HPP
