// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_EXCHANGE_HPP
#define BALLAST_ROUTE_DETAIL_EXCHANGE_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

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
template <communicator C>
class host_messages {
 public:
  explicit host_messages(C& comm) : comm_(comm) {}

  [[nodiscard]] std::span<std::byte> room(std::size_t bytes) const { return comm_.scratch(bytes); }
  [[nodiscard]] result<void> arrive() const { return comm_.wait(); }

 private:
  C& comm_;
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_EXCHANGE_HPP
