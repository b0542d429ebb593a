// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// A communicator for ranks that are threads of one process: each rank copies its bytes straight
/// from its peers' arrays, one copy per message. It is `point_to_point` too: of a send and its
/// receive, the call that comes second copies.
///
/// One thread at a time uses a rank's communicator. Destroying it leaves the group: ranks that wait
/// for this rank, or make a call later, get peer_lost at once. run_ranks starts the threads as
/// well.
///
/// Expects     as `communicator` and `point_to_point` say; deadline > 0.
/// Ensures     (1) operations and all sizes are compared on every call, before a byte moves
///             (2) once a rank's call has returned, with or without an error, no other rank touches
///                 its arrays
///             (3) in the steady state nothing is allocated; scratch is aligned to 64 bytes
/// Errors      mismatch, timed_out, peer_lost; a transfer minds only that its own peer has left.
///             The deadline limits the wait until all ranks have
///             made the call; the copies that follow have no limit. In a broken group every rank
///             gets the same error, also a rank that calls late. Groups made by split have the same
///             deadline, and one that breaks does not break the others.
/// Complexity  per call and rank O(P) and the bytes it receives; the last rank compares P^2 counts.
class thread_communicator {
 public:
  /// Returns a communicator for each rank of a new group, in rank order; give each to its thread.
  [[nodiscard]] BALLAST_ONCE static std::vector<thread_communicator> make(
      std::size_t ranks, std::chrono::milliseconds deadline = default_deadline);

  thread_communicator(thread_communicator&& other) noexcept
      : own_(std::exchange(other.own_, nullptr))
  {}
  thread_communicator& operator=(thread_communicator&& other) noexcept
  {
    thread_communicator taken(std::move(other));
    std::swap(own_, taken.own_);
    return *this;
  }
  BALLAST_ONCE ~thread_communicator();

  [[nodiscard]] BALLAST_ONCE rank_id rank() const noexcept;
  [[nodiscard]] BALLAST_ONCE std::size_t size() const noexcept;
  [[nodiscard]] BALLAST_ONCE std::chrono::milliseconds deadline() const noexcept;

  [[nodiscard]] BALLAST_ONCE result<void> all_gather(std::span<std::byte const> send,
                                                     std::span<std::byte> receive);
  [[nodiscard]] BALLAST_ONCE result<void> all_to_all_v(std::span<std::byte const> send,
                                                       std::span<std::size_t const> send_bytes,
                                                       std::span<std::byte> receive,
                                                       std::span<std::size_t const> receive_bytes,
                                                       std::uint64_t content = 0);
  [[nodiscard]] BALLAST_ONCE result<void> broadcast(std::span<std::byte> bytes, rank_id root);
  [[nodiscard]] BALLAST_ONCE result<void> barrier();
  [[nodiscard]] BALLAST_ONCE result<thread_communicator> split(std::uint32_t colour);

  [[nodiscard]] BALLAST_ONCE result<transfer_id> send(std::span<std::byte const> bytes,
                                                      rank_id peer);
  [[nodiscard]] BALLAST_ONCE result<transfer_id> receive(std::span<std::byte> bytes, rank_id peer);
  /// Returns at once, since transfers have started already; likewise wait().
  [[nodiscard]] BALLAST_ONCE result<void> start();
  [[nodiscard]] BALLAST_ONCE result<bool> is_done(transfer_id transfer);
  [[nodiscard]] BALLAST_ONCE result<void> wait_for(transfer_id transfer);
  /// Returns true: afterwards no rank touches the bytes.
  [[nodiscard]] BALLAST_ONCE bool cancel(transfer_id transfer);

  /// Returns at once, since calls have waited already; a broken communicator returns its error.
  [[nodiscard]] result<void> wait() { return start(); }

  [[nodiscard]] BALLAST_ONCE std::span<std::byte> scratch(std::size_t bytes);

 private:
  struct member;  // of a group

  explicit thread_communicator(member* own) noexcept : own_(own) {}

  member* own_;
};

namespace detail {

/// Calls run(self, rank, communicator) on a thread for each rank, as run_ranks says.
BALLAST_ONCE void run_threads(std::size_t ranks, std::chrono::milliseconds deadline,
                              void const* self,
                              void (*run)(void const*, std::size_t, thread_communicator&));

}  // namespace detail

/// Runs a whole job in one process: calls f on one thread per rank, each with its communicator, and
/// returns when all have returned.
///
///     run_ranks(8, [](thread_communicator& comm) { ... });
///
/// In, out     all threads call f at the same time, so all ranks share what f captures.
/// Expects     ranks >= 1; deadline > 0.
/// Ensures     (1) if f returns a value, the values of all ranks are returned, in rank order
///             (2) a rank that returns or throws leaves the group: ranks that wait for it get
///                 peer_lost
///             (3) if ranks throw, the first exception is thrown again after all have ended: later
///                 ones may be its consequences
/// Errors      those of f; std::system_error if a thread cannot be started.
template <class F>
  requires std::invocable<F&, thread_communicator&>
auto run_ranks(std::size_t ranks, F f, std::chrono::milliseconds deadline = default_deadline)
{
  using value = std::invoke_result_t<F&, thread_communicator&>;
  constexpr bool has_value = !std::is_void_v<value>;

  std::vector<std::optional<std::conditional_t<has_value, value, bool>>> returned(ranks);
  auto const run = [&](std::size_t rank, thread_communicator& comm) {
    if constexpr (has_value) {
      returned[rank].emplace(f(comm));
    } else {
      f(comm);
    }
  };
  detail::run_threads(ranks, deadline, &run,
                      [](void const* self, std::size_t rank, thread_communicator& comm) {
                        (*static_cast<decltype(run)*>(self))(rank, comm);
                      });
  if constexpr (has_value) {
    std::vector<value> values;
    values.reserve(ranks);
    for (auto& each : returned) { values.push_back(*std::move(each)); }
    return values;
  }
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/comm/detail/thread_members.hpp>
#endif
