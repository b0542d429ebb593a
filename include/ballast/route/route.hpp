// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/row_array.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Copies one rank's own bytes in an exchange, at once or on a stream:
///
///   room(bytes)        returns memory for messages, which the communicator reaches too
///   pack(outgoing)     copies what leaves the rank into messages
///   keep()             copies what stays on the rank, while messages travel
///   arrive()           returns when unpack may be called
///   unpack(incoming)   copies messages to where they belong
template <class M>
concept exchange_mover = requires(M& mover, std::span<std::byte> messages) {
  { mover.room(messages.size()) } -> std::same_as<std::span<std::byte>>;
  { mover.pack(messages) } -> std::same_as<result<void>>;
  { mover.keep() } -> std::same_as<result<void>>;
  { mover.arrive() } -> std::same_as<result<void>>;
  { mover.unpack(messages) } -> std::same_as<result<void>>;
};

/// The part of a mover that all movers on the host have in common: messages lie in the
/// communicator's scratch, and have arrived when its wait() returns.
class host_messages {
 public:
  explicit host_messages(any_communicator comm) : comm_(comm) {}

  [[nodiscard]] std::span<std::byte> room(std::size_t bytes) const { return comm_.scratch(bytes); }
  [[nodiscard]] result<void> arrive() const { return comm_.wait(); }

 private:
  any_communicator comm_;
};

/// Runs the operations of an exchange in their order, for routes and for Ulysses, on the host and
/// on the device: pack, all-to-all, keep, wait, unpack.
///
/// sizes(sent, received) writes the bytes of the messages to and from each rank. The content_word is
/// compared where the communicator takes one.
///
/// Ensures     (1) nothing is sent if packing fails, and after any failure nothing follows
///             (2) memory is allocated by the workspace and the mover alone
/// Errors      the first of the mover or of the communicator's all_to_all_v.
template <communicator C, std::invocable<std::span<std::size_t>, std::span<std::size_t>> Sizes,
          exchange_mover Mover>
[[nodiscard]] result<void> run_exchange(C& comm, workspace& memory, std::uint64_t content,
                                        Sizes const& sizes, Mover mover)
{
  auto scratch = memory.open();
  std::span<std::size_t> const sent = scratch.take<std::size_t>(comm.size());
  std::span<std::size_t> const received = scratch.take<std::size_t>(comm.size());
  sizes(sent, received);
  std::size_t const all_sent = std::reduce(sent.begin(), sent.end());
  std::size_t const all_received = std::reduce(received.begin(), received.end());

  std::span<std::byte> const messages = mover.room(all_sent + all_received);
  std::span<std::byte> const outgoing = messages.first(all_sent);
  std::span<std::byte> const incoming = messages.subspan(all_sent, all_received);
  if (auto packed = mover.pack(outgoing); !packed) { return packed; }
  auto const all_to_all = [&] {
    if constexpr (requires { comm.all_to_all_v(outgoing, sent, incoming, received, content); }) {
      return comm.all_to_all_v(outgoing, sent, incoming, received, content);
    } else {
      return comm.all_to_all_v(outgoing, sent, incoming, received);
    }
  };
  if (auto moved = all_to_all(); !moved) { return moved; }
  if (auto kept = mover.keep(); !kept) { return kept; }
  if (auto done = mover.arrive(); !done) { return done; }
  return mover.unpack(incoming);
}

enum class route_direction { forward, reverse };

BALLAST_ONCE void check_rows(row_traffic const& traffic, std::span<row_array const> arrays);

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
BALLAST_ONCE void keep_rows(route_plan const& plan, bool forward,
                            std::span<row_array const> arrays);

[[nodiscard]] BALLAST_ONCE result<void> route_on_host(any_communicator comm, route_plan const& plan,
                                                      route_direction direction,
                                                      std::span<row_array const> arrays,
                                                      workspace& memory);

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

/// Carries the rows of a step along its routes, wherever the arrays lie. `orchestrator` calls it.
///
///   begin_step()                     the plans of the step before may be overwritten from now on
///   route(plan, arrays...)           moves arrays as ballast::route does
///   reverse_route(plan, arrays...)   moves them back
///   copy(array)                      copies rows that stay where they are
///
/// Expects     a plan stays as it is from its first call in a step to the next begin_step().
template <class Carrier>
concept row_carrier =
    requires(Carrier& carrier, Carrier const& view, route_plan const& plan, row_array array) {
      { view.rank() } -> std::same_as<rank_id>;
      { view.size() } -> std::same_as<std::size_t>;
      { carrier.begin_step() } -> std::same_as<result<void>>;
      { carrier.route(plan, array) } -> std::same_as<result<void>>;
      { carrier.reverse_route(plan, array) } -> std::same_as<result<void>>;
      { carrier.copy(array) } -> std::same_as<result<void>>;
    };

/// Carries rows of arrays in the host's memory.
///
/// Expects     comm outlives it.
template <communicator C>
class host_carrier {
 public:
  explicit host_carrier(C& comm) : comm_(comm) {}

  [[nodiscard]] rank_id rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] std::size_t size() const noexcept { return comm_.size(); }
  [[nodiscard]] result<void> begin_step() const { return {}; }

  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(route_plan const& plan, Arrays const&... arrays)
  {
    return ballast::route(comm_, plan, memory_, arrays...);
  }
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(route_plan const& plan, Arrays const&... arrays)
  {
    return ballast::reverse_route(comm_, plan, memory_, arrays...);
  }
  [[nodiscard]] result<void> copy(row_array const& array) const
  {
    std::copy(array.from.begin(), array.from.end(), array.to.begin());
    return {};
  }

 private:
  C& comm_;
  workspace memory_;
};

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0::detail {

BALLAST_ONCE void check_rows(row_traffic const& traffic, std::span<row_array const> arrays)
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

BALLAST_ONCE void keep_rows(route_plan const& plan, bool forward, std::span<row_array const> arrays)
{
  for (row_array const& array : arrays) {
    for (route_plan::kept_rows const kept : plan.kept) {
      auto const from = static_cast<std::size_t>(forward ? kept.from_row : kept.to_row);
      auto const to = static_cast<std::size_t>(forward ? kept.to_row : kept.from_row);
      std::memcpy(&array.to[to * array.row_bytes], &array.from[from * array.row_bytes],
                  static_cast<std::size_t>(kept.count) * array.row_bytes);
    }
  }
}

/// Copies rows on the host.
class host_row_mover : public host_messages {
 public:
  host_row_mover(any_communicator comm, route_plan const& plan, route_direction direction,
                 std::span<row_array const> arrays)
      : host_messages(comm),
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

[[nodiscard]] BALLAST_ONCE result<void> route_on_host(any_communicator comm, route_plan const& plan,
                                                      route_direction direction,
                                                      std::span<row_array const> arrays,
                                                      workspace& memory)
{
  row_traffic const forward{plan.rank,        plan.rows_before,     plan.rows_after,
                            plan.sent.rows(), plan.received.rows(), plan.word};
  return exchange_rows(comm, direction == route_direction::forward ? forward : forward.reversed(),
                       arrays, memory, host_row_mover(comm, plan, direction, arrays));
}

}  // namespace ballast::inline v0::detail

#endif
