// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/numbered_places.hpp>
#include <ballast/core/detail/wait_clock.hpp>

#include <memory>

namespace ballast::inline v0 {

namespace detail {

/// What the threads of a group know of each other: who waits for whom, who has left, and the first
/// failure, which becomes everybody's.
///
/// Expects     all members are used with `mutex` locked.
struct thread_waits {
  explicit thread_waits(std::size_t ranks)
      : woken(ranks), left(ranks, false), awaited(ranks, waits_for::nobody)
  {}

  /// Returns the failure that stands: `why`, unless there was one before.
  [[nodiscard]] tl::unexpected<error> fail(tl::unexpected<error> why)
  {
    if (!failure) { failure = std::move(why).value(); }
    wake_all();
    return tl::unexpected<error>(*failure);
  }

  void leave(std::size_t rank) noexcept
  {
    left[rank] = true;
    someone_left = true;
    wake_all();
  }

  [[nodiscard]] std::vector<rank_id> ranks_that_hold_up(std::size_t self) const
  {
    std::vector<bool> held(left.size(), false);
    held[self] = true;
    return detail::ranks_that_hold_up(std::move(held), awaited);
  }

  [[nodiscard]] std::vector<rank_id> ranks_that_left() const
  {
    std::vector<rank_id> ranks;
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      if (left[rank]) { ranks.push_back(to_id<rank_id>(rank)); }
    }
    return ranks;
  }

  std::mutex mutex;
  std::condition_variable met;                 // for those in a collective operation
  std::vector<std::condition_variable> woken;  // for each rank that waits for a transfer
  std::vector<bool> left;
  std::vector<int> awaited;  // by each rank: a rank, nobody or everybody
  bool someone_left = false;
  std::optional<error> failure;

 private:
  void wake_all() noexcept
  {
    met.notify_all();
    for (std::condition_variable& each : woken) { each.notify_all(); }
  }
};

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
    if (own.now == state::open) { waits_.awaited[self] = static_cast<int>(own.peer); }
    wait_by_clock(waits_.woken[self], lock, deadline_, [&] {
      bool const hopeless = waits_.failure || waits_.left[own.peer];
      return is_over(own) || (own.now == state::open && hopeless);
    });
    // Only a copy remains: no deadline.
    waits_.woken[self].wait(lock, [&] { return own.now != state::copying; });
    transfer const ended = own;
    auto why = is_over(ended) ? result<void>() : lost(self, ended);
    waits_.awaited[self] = waits_for::nobody;
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
    for (transfer& each : members_[self].transfers.all()) { each.now = state::unused; }
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
    numbered_places<transfer> transfers;
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
    BALLAST_EXPECTS(all.has(to_index(id)), "transfer ", to_index(id), " of rank ", self,
                    " is not under way");
    return all[to_index(id)];
  }

  [[nodiscard]] result<transfer_id> post(std::size_t self, transfer own)
  {
    std::unique_lock lock(waits_.mutex);
    if (waits_.failure || waits_.left[own.peer]) {
      settle(lock, self);
      return lost(self, own);
    }
    auto& all = members_[self].transfers;
    (void)all.next();  // may allocate, and move them
    own.now = state::open;
    own.number = members_[self].begun++;
    transfer* const met = first_that_meets(self, own);
    all.next() = own;
    std::size_t const index = all.begin();
    auto const id = to_id<transfer_id>(index);
    if (met == nullptr) { return id; }
    auto const their_index =
        static_cast<std::size_t>(met - members_[own.peer].transfers.all().data());
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
    if (members_[own.peer].awaited == their_index &&
        std::cmp_equal(waits_.awaited[own.peer], self)) {
      waits_.awaited[own.peer] = waits_for::nobody;
    }
    waits_.woken[own.peer].notify_all();
    return id;
  }

  void end(std::size_t self, transfer_id id) noexcept
  {
    at(self, id).now = state::unused;
    members_[self].transfers.end(to_index(id));
  }

  /// The peer's transfer that a new one meets, or null.
  [[nodiscard]] transfer* first_that_meets(std::size_t self, transfer const& own)
  {
    transfer* first = nullptr;
    for (transfer& each : members_[own.peer].transfers.all()) {
      bool const meets = each.now == state::open && each.peer == self && each.sends != own.sends;
      if (meets && (first == nullptr || each.number < first->number)) { first = &each; }
    }
    return first;
  }

  void settle(std::unique_lock<std::mutex>& lock, std::size_t self)
  {
    auto const& all = members_[self].transfers.all();
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

}  // namespace detail

/// The calls of a group of threads, one call (a turn) after the other. Each thread makes its offer;
/// the last to arrive compares all offers; then every thread takes what is for it; and no thread
/// returns before all have taken.
///
/// Ensures     (1) offers do not change between the last arrival and the last departure, so threads
///                 read them without the lock
///             (2) after a thread has given up no turn begins, so no thread reads its offer
///             (3) the first failure is returned to every thread, also in all later turns
/// Complexity  O(P^2) for the comparison, else O(P) per thread and turn.
class thread_meeting {
 public:
  /// A rank of the group that a split has made.
  struct place {
    std::shared_ptr<thread_meeting> group;
    std::size_t rank = 0;
  };

  thread_meeting(std::size_t ranks, std::chrono::milliseconds deadline)
      : offers_(ranks),
        parts_(ranks),
        deadline_(deadline),
        waits_(ranks),
        transfers_(waits_, ranks, deadline)
  {}

  [[nodiscard]] std::size_t size() const noexcept { return offers_.size(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return deadline_; }

  /// What the threads send each other outside of turns.
  [[nodiscard]] detail::thread_transfers& transfers() noexcept { return transfers_; }

  /// One turn: runs take() once all offers are there and agree.
  template <class Take>
  [[nodiscard]] result<void> meet(std::size_t self, call_offers::rank_offer const& offer, Take take)
  {
    offers_.put(self, offer);
    if (auto arrived = arrive(self); !arrived) { return arrived; }
    departure const at_the_end{*this};
    if (!agreed_) { return offers_.mismatch(self); }
    take();
    return {};
  }

  /// This rank will make no further call.
  void leave(std::size_t self) noexcept
  {
    transfers_.leave(self);
    std::lock_guard const lock(waits_.mutex);
    waits_.leave(self);
  }

  // To be called by take() only.

  [[nodiscard]] call_offers const& offers() const noexcept { return offers_; }

  [[nodiscard]] place place_in_part(std::size_t self)
  {
    std::size_t before = 0;
    for (std::size_t peer = 0; peer < self; ++peer) {
      before += offers_[peer].colour == offers_[self].colour ? 1U : 0U;
    }
    return {std::move(parts_[self]), before};
  }

 private:
  struct departure {
    thread_meeting& meeting;
    ~departure() { meeting.depart(); }
  };

  /// Returns when all threads have arrived, or with the failure.
  [[nodiscard]] result<void> arrive(std::size_t self)
  {
    std::unique_lock lock(waits_.mutex);
    char const* const operation = offers_[self].call.name();
    std::uint64_t const turn = turn_;
    auto const cannot = [&] { return waits_.failure || waits_.someone_left; };
    if (!cannot()) {
      if (here_ + 1 == size()) {
        open();
        return {};
      }
      waits_.awaited[self] = detail::waits_for::everybody;
      ++here_;
      detail::wait_by_clock(waits_.met, lock, deadline_, [&] { return turn_ != turn || cannot(); });
      if (turn_ != turn) { return {}; }
    }
    return waits_.fail(
        waits_.someone_left
            ? comm_failure::peer_lost(operation, waits_.ranks_that_left())
            : comm_failure::timed_out(operation, deadline_, waits_.ranks_that_hold_up(self)));
  }

  /// Waits until all have taken. All threads have arrived, and only copies remain: no deadline.
  void depart() noexcept
  {
    std::unique_lock lock(waits_.mutex);
    std::uint64_t const turn = turn_;
    if (++here_ == size()) {
      next_turn();
    } else {
      waits_.met.wait(lock, [&] { return turn_ != turn; });
    }
  }

  void open()
  {
    agreed_ = offers_.all_agree();
    if (agreed_ && offers_[0].call.operation == collective::split) { make_parts(); }
    std::fill(waits_.awaited.begin(), waits_.awaited.end(), detail::waits_for::nobody);
    next_turn();
  }

  void next_turn() noexcept
  {
    here_ = 0;
    ++turn_;
    waits_.met.notify_all();
  }

  void make_parts()
  {
    for (auto& each : parts_) { each.reset(); }
    for (std::size_t first = 0; first < size(); ++first) {
      if (parts_[first]) { continue; }
      auto const is_of_it = [&](std::size_t rank) {
        return offers_[rank].colour == offers_[first].colour;
      };
      std::size_t ranks = 0;
      for (std::size_t rank = first; rank < size(); ++rank) { ranks += is_of_it(rank) ? 1U : 0U; }
      auto const part = std::make_shared<thread_meeting>(ranks, deadline_);
      for (std::size_t rank = first; rank < size(); ++rank) {
        if (is_of_it(rank)) { parts_[rank] = part; }
      }
    }
  }

  call_offers offers_;
  std::vector<std::shared_ptr<thread_meeting>> parts_;  // of each rank: the new group of its colour
  std::chrono::milliseconds deadline_;
  detail::thread_waits waits_;  // its mutex guards what follows too
  detail::thread_transfers transfers_;
  std::size_t here_ = 0;    // ranks that have arrived or, once all have, that have departed
  std::uint64_t turn_ = 0;  // grows when all have arrived, and again when all have departed
  bool agreed_ = false;     // whether all offers of the turn agree
};

}  // namespace ballast::inline v0
