// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_THREAD_TRANSFERS_HPP
#define BALLAST_COMM_DETAIL_THREAD_TRANSFERS_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/deadline.hpp>
#include <ballast/comm/detail/thread_waits.hpp>
#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The transfers between the threads of a group. Of a send and its receive the second one copies
/// the bytes, straight from array to array and without the lock.
///
/// Expects     what `point_to_point` says; one thread at a time per rank.
/// Ensures     (1) once a rank's call has returned an error, no other rank touches its arrays
///             (2) the first failure is everybody's, also that of collective operations
///             (3) a post allocates only where there were never as many transfers of that rank
/// Complexity  send and receive O(transfers of the peer that are under way), all else O(1), but for
///             errors.
class thread_transfers {
 public:
  thread_transfers(thread_waits& waits, std::size_t ranks, std::chrono::milliseconds deadline)
      : waits_(waits), members_(ranks), deadline_(deadline)
  {}

  [[nodiscard]] result<transfer_id> send(std::size_t self, std::span<std::byte const> bytes,
                                         std::size_t peer)
  {
    return post(self, {true, peer, bytes.data(), nullptr, bytes.size()});
  }

  [[nodiscard]] result<transfer_id> receive(std::size_t self, std::span<std::byte> bytes,
                                            std::size_t peer)
  {
    return post(self, {false, peer, nullptr, bytes.data(), bytes.size()});
  }

  [[nodiscard]] result<bool> is_done(std::size_t self, transfer_id id)
  {
    std::unique_lock lock(waits_.mutex);
    transfer const& own = at(self, id);
    bool const hopeless = waits_.failure || waits_.left[own.peer];
    if (hopeless) { settle(lock, self); }
    if (is_over(own)) { return true; }
    if (hopeless) { return lost(self, own); }
    return false;
  }

  [[nodiscard]] result<void> wait_for(std::size_t self, transfer_id id)
  {
    std::unique_lock lock(waits_.mutex);
    transfer& own = at(self, id);
    members_[self].awaited = to_index(id);
    if (own.now == state::open) { waits_.waits_for[self] = own.peer; }
    wait_by_clock(waits_.woken[self], lock, deadline_, [&] {
      bool const hopeless = waits_.failure || waits_.left[own.peer];
      return is_over(own) || (own.now == state::open && hopeless);
    });
    // Only a copy remains: no deadline.
    waits_.woken[self].wait(lock, [&] { return own.now != state::copying; });
    transfer const ended = own;
    auto why = is_over(ended) ? result<void>() : lost(self, ended);
    waits_.waits_for[self] = thread_waits::nobody;
    if (!is_over(ended)) {  // it stays, for cancel
      settle(lock, self);
      return why;
    }
    end(self, id);
    if (ended.now == state::done) { return {}; }
    return comm_failure::different_message(name_of(ended), to_id<rank_id>(ended.peer), ended.bytes,
                                           ended.theirs);
  }

  void cancel(std::size_t self, transfer_id id) noexcept
  {
    std::unique_lock lock(waits_.mutex);
    transfer const& own = at(self, id);
    waits_.woken[self].wait(lock, [&] { return own.now != state::copying; });
    end(self, id);
  }

  /// After a failure: waits until no other rank copies from or to this rank's arrays.
  void settle(std::size_t self)
  {
    std::unique_lock lock(waits_.mutex);
    settle(lock, self);
  }

  /// This rank will begin no further transfer: those under way are cancelled.
  void leave(std::size_t self) noexcept
  {
    std::unique_lock lock(waits_.mutex);
    settle(lock, self);
    for (transfer& each : members_[self].transfers) { each.now = state::unused; }
  }

 private:
  enum class state { unused, open, copying, done, refused };

  struct transfer {
    bool sends = false;
    std::size_t peer = 0;
    std::byte const* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    state now = state::unused;
    std::size_t theirs = 0;    // bytes of the peer's transfer, once refused
    std::uint64_t number = 0;  // in the order of this rank's calls
  };

  struct member {
    std::vector<transfer> transfers;
    std::vector<std::size_t> unused;  // places among them
    std::uint64_t begun = 0;
    std::size_t awaited = 0;  // the one that the rank waits for, or waited for last
  };

  [[nodiscard]] static bool is_over(transfer const& each)
  {
    return each.now == state::done || each.now == state::refused;
  }
  [[nodiscard]] static char const* name_of(transfer const& each)
  {
    return each.sends ? "send" : "receive";
  }

  [[nodiscard]] transfer& at(std::size_t self, transfer_id id)
  {
    auto& all = members_[self].transfers;
    BALLAST_EXPECTS(to_index(id) < all.size() && all[to_index(id)].now != state::unused,
                    "transfer ", to_index(id), " of rank ", self, " is not under way");
    return all[to_index(id)];
  }

  [[nodiscard]] result<transfer_id> post(std::size_t self, transfer own)
  {
    std::unique_lock lock(waits_.mutex);
    if (waits_.failure || waits_.left[own.peer]) {
      settle(lock, self);
      return lost(self, own);
    }
    std::size_t const index = place(members_[self]);
    auto const id = to_id<transfer_id>(index);
    own.now = state::open;
    own.number = members_[self].begun++;
    transfer* const met = first_that_meets(self, own);
    members_[self].transfers[index] = own;
    if (met == nullptr) { return id; }
    auto const their_index = static_cast<std::size_t>(met - members_[own.peer].transfers.data());
    transfer const theirs = members_[own.peer].transfers[their_index];
    auto const both = [&](state now) {
      members_[self].transfers[index].now = now;
      members_[own.peer].transfers[their_index].now = now;
    };
    if (theirs.bytes != own.bytes) {
      members_[self].transfers[index].theirs = theirs.bytes;
      members_[own.peer].transfers[their_index].theirs = own.bytes;
      both(state::refused);
    } else {
      both(state::copying);
      lock.unlock();
      // memcpy wants no null pointers.
      if (own.bytes > 0 && own.sends) { std::memcpy(theirs.to, own.from, own.bytes); }
      if (own.bytes > 0 && !own.sends) { std::memcpy(own.to, theirs.from, own.bytes); }
      lock.lock();
      both(state::done);
    }
    // `awaited` may be a transfer that the peer waited for before: now it may wait for everybody.
    if (members_[own.peer].awaited == their_index && waits_.waits_for[own.peer] == self) {
      waits_.waits_for[own.peer] = thread_waits::nobody;
    }
    waits_.woken[own.peer].notify_all();
    return id;
  }

  /// Returns a place for a new transfer, without allocating where one is unused.
  [[nodiscard]] static std::size_t place(member& own)
  {
    if (own.unused.empty()) {
      own.unused.reserve(own.transfers.size() + 1);  // for all to end, which must not allocate
      own.transfers.emplace_back();
      return own.transfers.size() - 1;
    }
    std::size_t const index = own.unused.back();
    own.unused.pop_back();
    return index;
  }

  void end(std::size_t self, transfer_id id) noexcept
  {
    at(self, id).now = state::unused;
    members_[self].unused.push_back(to_index(id));
  }

  /// The peer's transfer that a new one meets, or null.
  [[nodiscard]] transfer* first_that_meets(std::size_t self, transfer const& own)
  {
    transfer* first = nullptr;
    for (transfer& each : members_[own.peer].transfers) {
      bool const meets = each.now == state::open && each.peer == self && each.sends != own.sends;
      if (meets && (first == nullptr || each.number < first->number)) { first = &each; }
    }
    return first;
  }

  void settle(std::unique_lock<std::mutex>& lock, std::size_t self)
  {
    auto const& all = members_[self].transfers;
    waits_.woken[self].wait(lock, [&] {
      return std::none_of(all.begin(), all.end(),
                          [](transfer const& each) { return each.now == state::copying; });
    });
  }

  /// Why a transfer will not come about.
  [[nodiscard]] tl::unexpected<error> lost(std::size_t self, transfer const& own)
  {
    if (waits_.failure) { return tl::unexpected<error>(*waits_.failure); }
    return waits_.fail(
        waits_.left[own.peer]
            ? comm_failure::peer_lost(name_of(own), {to_id<rank_id>(own.peer)})
            : comm_failure::timed_out(name_of(own), deadline_, waits_.ranks_that_hold_up(self)));
  }

  thread_waits& waits_;
  std::vector<member> members_;
  std::chrono::milliseconds deadline_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_THREAD_TRANSFERS_HPP
