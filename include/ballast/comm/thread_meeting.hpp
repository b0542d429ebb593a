// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_THREAD_MEETING_HPP
#define BALLAST_COMM_THREAD_MEETING_HPP

#include <ballast/comm/call_offers.hpp>
#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/deadline.hpp>
#include <ballast/comm/detail/thread_transfers.hpp>
#include <ballast/comm/detail/thread_waits.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

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
  [[nodiscard]] result<void> meet(std::size_t self, call_offer const& offer, Take take)
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
    char const* const operation = name_of(offers_[self].call.operation);
    std::uint64_t const turn = turn_;
    auto const cannot = [&] { return waits_.failure || waits_.someone_left; };
    if (!cannot()) {
      if (here_ + 1 == size()) {
        open();
        return {};
      }
      waits_.waits_for[self] = detail::thread_waits::everybody;
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
    std::fill(waits_.waits_for.begin(), waits_.waits_for.end(), detail::thread_waits::nobody);
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

#endif  // BALLAST_COMM_THREAD_MEETING_HPP
