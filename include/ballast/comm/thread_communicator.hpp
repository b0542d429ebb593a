// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/thread_meeting.hpp>
#include <ballast/core.hpp>

#include <thread>

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
  [[nodiscard]] static std::vector<thread_communicator> make(
      std::size_t ranks, std::chrono::milliseconds deadline = default_deadline)
  {
    BALLAST_EXPECTS(ranks >= 1, "a group of ", detail::counted(ranks, "rank"), " was asked for");
    detail::expect_deadline(deadline);
    auto const group = std::make_shared<thread_meeting>(ranks, deadline);
    std::vector<thread_communicator> communicators;
    communicators.reserve(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      communicators.push_back(thread_communicator(group, rank));
    }
    return communicators;
  }

  [[nodiscard]] rank_id rank() const noexcept { return to_id<rank_id>(rank_); }
  [[nodiscard]] std::size_t size() const noexcept { return group_->size(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return group_->deadline(); }

  [[nodiscard]] result<void> all_gather(std::span<std::byte const> send,
                                        std::span<std::byte> receive)
  {
    collective_call::expect_gather(send.size(), receive.size(), size());
    call_offers::rank_offer const offer{{collective::all_gather, send.size()}, send};
    return meet(offer, [&] {
      auto* to = receive.data();
      for (std::size_t peer = 0; peer < size(); ++peer) {
        to = copy(group_->offers()[peer].send, to);
      }
    });
  }

  [[nodiscard]] result<void> all_to_all_v(std::span<std::byte const> send,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::byte> receive,
                                          std::span<std::size_t const> receive_bytes,
                                          std::uint64_t content = 0)
  {
    collective_call::expect_exchange(send.size(), send_bytes, receive.size(), receive_bytes,
                                     size());
    call_offers::rank_offer const offer{
        {collective::all_to_all_v, 0, rank_id{}, content}, send, send_bytes, receive_bytes};
    return meet(offer, [&] {
      auto* to = receive.data();
      for (std::size_t peer = 0; peer < size(); ++peer) {
        to = copy(group_->offers().message(peer, rank_), to);
      }
    });
  }

  [[nodiscard]] result<void> broadcast(std::span<std::byte> bytes, rank_id root)
  {
    collective_call::expect_root(root, size());
    call_offers::rank_offer const offer{{collective::broadcast, bytes.size(), root}, bytes};
    return meet(offer, [&] {
      if (root != rank()) { copy(group_->offers()[to_index(root)].send, bytes.data()); }
    });
  }

  [[nodiscard]] result<void> barrier()
  {
    return meet({{collective::barrier}}, [] {});
  }

  [[nodiscard]] result<thread_communicator> split(std::uint32_t colour)
  {
    call_offers::rank_offer const offer{{collective::split}, {}, {}, {}, colour};
    thread_meeting::place place;
    return meet(offer, [&] { place = group_->place_in_part(rank_); }).map([&] {
      return thread_communicator(place.group, place.rank);
    });
  }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, rank_id peer)
  {
    collective_call::expect_peer(peer, size());
    return checked([&] { return group_->transfers().send(rank_, bytes, to_index(peer)); });
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, rank_id peer)
  {
    collective_call::expect_peer(peer, size());
    return checked([&] { return group_->transfers().receive(rank_, bytes, to_index(peer)); });
  }

  /// Returns at once, since transfers have started already; likewise wait().
  [[nodiscard]] result<void> start()
  {
    return checked([] { return result<void>(); });
  }

  [[nodiscard]] result<bool> is_done(transfer_id transfer)
  {
    return checked([&] { return group_->transfers().is_done(rank_, transfer); });
  }

  [[nodiscard]] result<void> wait_for(transfer_id transfer)
  {
    return checked([&] { return group_->transfers().wait_for(rank_, transfer); });
  }

  /// Returns true: afterwards no rank touches the bytes.
  [[nodiscard]] bool cancel(transfer_id transfer)
  {
    group_->transfers().cancel(rank_, transfer);
    return true;
  }

  /// Returns at once, since calls have waited already; a broken communicator returns its error.
  [[nodiscard]] result<void> wait() { return start(); }

  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes) { return scratch_.take(bytes); }

 private:
  thread_communicator(std::shared_ptr<thread_meeting> const& group, std::size_t rank) noexcept
      : group_(group.get(), leave{group, rank}), rank_(rank)
  {}

  // std::ranges::copy is a loop over single bytes in libstdc++ 12; memcpy wants no null pointers.
  static std::byte* copy(std::span<std::byte const> from, std::byte* to)
  {
    if (!from.empty()) { std::memcpy(to, from.data(), from.size()); }
    return to + from.size();
  }

  template <class Move>
  [[nodiscard]] result<void> meet(call_offers::rank_offer const& offer, Move move)
  {
    return checked([&] { return group_->meet(rank_, offer, move); });
  }

  /// Calls f unless the communicator is broken, and notes when it breaks.
  template <class F>
  [[nodiscard]] auto checked(F f) -> decltype(f())
  {
    if (!health_) { return tl::unexpected(health_.error()); }
    auto done = f();
    if (!done && done.error().code != error_code::mismatch) {
      health_ = tl::unexpected(done.error());
      group_->transfers().settle(rank_);
    }
    return done;
  }

  struct leave {
    std::shared_ptr<thread_meeting> group;
    std::size_t rank;
    void operator()(thread_meeting*) const noexcept { group->leave(rank); }
  };

  std::unique_ptr<thread_meeting, leave> group_;  // its deleter leaves the group
  std::size_t rank_;
  result<void> health_;  // once it is an error, every further call returns it
  detail::host_scratch scratch_;
};

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
  std::exception_ptr first_thrown;
  std::mutex thrown;
  auto const run = [&](std::size_t rank, thread_communicator comm) {
    // comm lives until the exception is stored: its peers notice later that this rank has left.
    auto const own = detail::thrown_by([&] {
      if constexpr (has_value) {
        returned[rank].emplace(f(comm));
      } else {
        f(comm);
      }
    });
    std::lock_guard const lock(thrown);
    if (!first_thrown) { first_thrown = own; }
  };
  {
    detail::joined_threads threads;
    // Declared after threads, so destroyed before them: if a thread cannot be started, the others
    // find that ranks have left, and can be joined.
    auto communicators = thread_communicator::make(ranks, deadline);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.all.emplace_back(run, rank, std::move(communicators[rank]));
    }
  }
  if (first_thrown) { std::rethrow_exception(first_thrown); }
  if constexpr (has_value) {
    std::vector<value> values;
    values.reserve(ranks);
    for (auto& each : returned) { values.push_back(*std::move(each)); }
    return values;
  }
}

}  // namespace ballast::inline v0
