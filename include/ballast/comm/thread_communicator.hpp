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

#include <ballast/comm/thread_meeting.hpp>

#include <exception>
#include <thread>

namespace ballast::inline v0 {

/// A rank of a group of threads, which leaves it at its end.
struct thread_communicator::member {
  std::shared_ptr<thread_meeting> group = {};
  std::size_t rank = 0;
  result<void> health = {};  // once it is an error, every further call returns it
  detail::host_scratch scratch = {};

  member() = default;
  member& operator=(member&&) = delete;
  ~member()
  {
    if (group) { group->leave(rank); }
  }

  // std::ranges::copy is a loop over single bytes in libstdc++ 12; memcpy wants no null pointers.
  static std::byte* copy(std::span<std::byte const> from, std::byte* to)
  {
    if (!from.empty()) { std::memcpy(to, from.data(), from.size()); }
    return to + from.size();
  }

  template <class Move>
  [[nodiscard]] result<void> meet(call_offers::rank_offer const& offer, Move move)
  {
    return checked([&] { return group->meet(rank, offer, move); });
  }

  /// Calls f unless the communicator is broken, and notes when it breaks.
  template <class F>
  [[nodiscard]] auto checked(F f) -> decltype(f())
  {
    if (!health) { return tl::unexpected(health.error()); }
    auto done = f();
    if (!done && done.error().code != error_code::mismatch) {
      health = tl::unexpected(done.error());
      group->transfers().settle(rank);
    }
    return done;
  }
};

BALLAST_ONCE std::vector<thread_communicator> thread_communicator::make(
    std::size_t ranks, std::chrono::milliseconds deadline)
{
  BALLAST_EXPECTS(ranks >= 1, "a group of ", detail::counted(ranks, "rank"), " was asked for");
  detail::expect_deadline(deadline);
  auto const group = std::make_shared<thread_meeting>(ranks, deadline);
  std::vector<thread_communicator> communicators;
  communicators.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto* const own = new member;
    own->group = group;
    own->rank = rank;
    communicators.push_back(thread_communicator(own));
  }
  return communicators;
}

BALLAST_ONCE thread_communicator::~thread_communicator()
{
  delete own_;
}

BALLAST_ONCE rank_id thread_communicator::rank() const noexcept
{
  return to_id<rank_id>(own_->rank);
}

BALLAST_ONCE std::size_t thread_communicator::size() const noexcept
{
  return own_->group->size();
}

BALLAST_ONCE std::chrono::milliseconds thread_communicator::deadline() const noexcept
{
  return own_->group->deadline();
}

BALLAST_ONCE result<void> thread_communicator::all_gather(std::span<std::byte const> send,
                                                          std::span<std::byte> receive)
{
  collective_call::expect_gather(send.size(), receive.size(), size());
  call_offers::rank_offer const offer{{collective::all_gather, send.size()}, send};
  return own_->meet(offer, [&] {
    auto* to = receive.data();
    for (std::size_t peer = 0; peer < size(); ++peer) {
      to = member::copy(own_->group->offers()[peer].send, to);
    }
  });
}

BALLAST_ONCE result<void> thread_communicator::all_to_all_v(
    std::span<std::byte const> send, std::span<std::size_t const> send_bytes,
    std::span<std::byte> receive, std::span<std::size_t const> receive_bytes, std::uint64_t content)
{
  collective_call::expect_exchange(send.size(), send_bytes, receive.size(), receive_bytes, size());
  call_offers::rank_offer const offer{
      {collective::all_to_all_v, 0, rank_id{}, content}, send, send_bytes, receive_bytes};
  return own_->meet(offer, [&] {
    auto* to = receive.data();
    for (std::size_t peer = 0; peer < size(); ++peer) {
      to = member::copy(own_->group->offers().message(peer, own_->rank), to);
    }
  });
}

BALLAST_ONCE result<void> thread_communicator::broadcast(std::span<std::byte> bytes, rank_id root)
{
  collective_call::expect_root(root, size());
  call_offers::rank_offer const offer{{collective::broadcast, bytes.size(), root}, bytes};
  return own_->meet(offer, [&] {
    if (root != rank()) { member::copy(own_->group->offers()[to_index(root)].send, bytes.data()); }
  });
}

BALLAST_ONCE result<void> thread_communicator::barrier()
{
  return own_->meet({{collective::barrier}}, [] {});
}

BALLAST_ONCE result<thread_communicator> thread_communicator::split(std::uint32_t colour)
{
  call_offers::rank_offer const offer{{collective::split}, {}, {}, {}, colour};
  thread_communicator part(
      new member);  // before: a rank that has a place in the new group joins it
  auto const met = own_->meet(offer, [&] {
    auto [group, rank] = own_->group->place_in_part(own_->rank);
    part.own_->group = std::move(group);
    part.own_->rank = rank;
  });
  if (!met) { return tl::unexpected(met.error()); }
  return part;
}

BALLAST_ONCE result<transfer_id> thread_communicator::send(std::span<std::byte const> bytes,
                                                           rank_id peer)
{
  collective_call::expect_peer(peer, size());
  return own_->checked(
      [&] { return own_->group->transfers().send(own_->rank, bytes, to_index(peer)); });
}

BALLAST_ONCE result<transfer_id> thread_communicator::receive(std::span<std::byte> bytes,
                                                              rank_id peer)
{
  collective_call::expect_peer(peer, size());
  return own_->checked(
      [&] { return own_->group->transfers().receive(own_->rank, bytes, to_index(peer)); });
}

BALLAST_ONCE result<void> thread_communicator::start()
{
  return own_->checked([] { return result<void>(); });
}

BALLAST_ONCE result<bool> thread_communicator::is_done(transfer_id transfer)
{
  return own_->checked([&] { return own_->group->transfers().is_done(own_->rank, transfer); });
}

BALLAST_ONCE result<void> thread_communicator::wait_for(transfer_id transfer)
{
  return own_->checked([&] { return own_->group->transfers().wait_for(own_->rank, transfer); });
}

BALLAST_ONCE bool thread_communicator::cancel(transfer_id transfer)
{
  own_->group->transfers().cancel(own_->rank, transfer);
  return true;
}

BALLAST_ONCE std::span<std::byte> thread_communicator::scratch(std::size_t bytes)
{
  return own_->scratch.take(bytes);
}

namespace detail {

/// Threads that are waited for at the end, as std::jthread does, which libc++ 19 lacks.
struct joined_threads {
  std::vector<std::thread> all = {};

  joined_threads() = default;
  joined_threads& operator=(joined_threads&&) = delete;
  ~joined_threads()
  {
    for (std::thread& each : all) { each.join(); }
  }
};

BALLAST_ONCE void run_threads(std::size_t ranks, std::chrono::milliseconds deadline,
                              void const* self,
                              void (*run)(void const*, std::size_t, thread_communicator&))
{
  std::exception_ptr first_thrown;
  std::mutex thrown;
  auto const run_one = [&](std::size_t rank, thread_communicator comm) {
    // comm lives until the exception is stored: its peers notice later that this rank has left.
    auto const own = thrown_by([&] { run(self, rank, comm); });
    std::lock_guard const lock(thrown);
    if (!first_thrown) { first_thrown = own; }
  };
  {
    joined_threads threads;
    // Declared after threads, so destroyed before them: if a thread cannot be started, the others
    // find that ranks have left, and can be joined.
    auto communicators = thread_communicator::make(ranks, deadline);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.all.emplace_back(run_one, rank, std::move(communicators[rank]));
    }
  }
  if (first_thrown) { std::rethrow_exception(first_thrown); }
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif
