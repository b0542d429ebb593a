// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_THREAD_MEETING_HPP
#define BALLAST_COMM_THREAD_MEETING_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/deadline.hpp>
#include <ballast/comm/detail/thread_transfers.hpp>
#include <ballast/comm/detail/thread_waits.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// The arguments of a thread's call, which its peers may read while the call lasts.
struct thread_offer {
  collective_call call;
  std::span<std::byte const> send = {};
  std::span<std::size_t const> send_bytes = {};     // [P] for all_to_all_v, else empty
  std::span<std::size_t const> receive_bytes = {};  // [P] for all_to_all_v, else empty
  std::uint32_t colour = 0;                         // for split
};

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
      : members_(ranks), deadline_(deadline), waits_(ranks), transfers_(waits_, ranks, deadline)
  {
    for (member& each : members_) { each.send_offsets.resize(ranks); }
  }

  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }

  /// What the threads send each other outside of turns.
  [[nodiscard]] detail::thread_transfers& transfers() noexcept { return transfers_; }

  /// One turn: runs take() once all offers are there and agree.
  template <class Take>
  [[nodiscard]] result<void> meet(std::size_t self, thread_offer const& offer, Take take)
  {
    member& own = members_[self];
    own.offer = offer;
    std::exclusive_scan(offer.send_bytes.begin(), offer.send_bytes.end(), own.send_offsets.begin(),
                        std::size_t{0});
    if (auto arrived = arrive(self); !arrived) { return arrived; }
    departure const at_the_end{*this};
    if (!agreed_) { return mismatch(self); }
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

  [[nodiscard]] thread_offer const& offer_of(std::size_t rank) const
  {
    return members_[rank].offer;
  }

  [[nodiscard]] std::span<std::byte const> message(std::size_t from, std::size_t to) const
  {
    member const& sender = members_[from];
    return sender.offer.send.subspan(sender.send_offsets[to], sender.offer.send_bytes[to]);
  }

  [[nodiscard]] place place_in_part(std::size_t self)
  {
    member const* const own = members_.data() + self;
    auto const before = std::count_if(
        std::as_const(members_).data(), own,
        [own](member const& other) { return other.offer.colour == own->offer.colour; });
    return {std::move(members_[self].part), static_cast<std::size_t>(before)};
  }

 private:
  struct member {
    thread_offer offer;
    std::vector<std::size_t> send_offsets;  // [P]
    std::shared_ptr<thread_meeting> part;   // the new group of its colour
  };

  struct departure {
    thread_meeting& meeting;
    ~departure() { meeting.depart(); }
  };

  /// Returns when all threads have arrived, or with the failure.
  [[nodiscard]] result<void> arrive(std::size_t self)
  {
    std::unique_lock lock(waits_.mutex);
    char const* const operation = name_of(members_[self].offer.call.operation);
    std::uint64_t const turn = turn_;
    auto const cannot = [&] { return waits_.failure || waits_.someone_left; };
    if (!cannot()) {
      if (here_ + 1 == size()) {
        open();
        return {};
      }
      waits_.waits_for[self] = detail::thread_waits::everybody;
      ++here_;
      // The clock overflows on now + max.
      constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);
      waits_.met.wait_for(lock, std::min(deadline_, longest),
                          [&] { return turn_ != turn || cannot(); });
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
    agreed_ = all_agree();
    if (agreed_ && members_.front().offer.call.operation == collective::split) { make_parts(); }
    std::fill(waits_.waits_for.begin(), waits_.waits_for.end(), detail::thread_waits::nobody);
    next_turn();
  }

  void next_turn() noexcept
  {
    here_ = 0;
    ++turn_;
    waits_.met.notify_all();
  }

  [[nodiscard]] bool counts_agree(std::size_t from, std::size_t to) const
  {
    return members_[from].offer.send_bytes[to] == members_[to].offer.receive_bytes[from];
  }

  [[nodiscard]] bool all_agree() const
  {
    collective_call const& first = members_.front().offer.call;
    bool agreed = std::all_of(members_.begin(), members_.end(),
                              [&](member const& each) { return each.offer.call == first; });
    if (first.operation != collective::all_to_all_v) { return agreed; }
    for (std::size_t from = 0; from < size() && agreed; ++from) {
      for (std::size_t to = 0; to < size() && agreed; ++to) { agreed = counts_agree(from, to); }
    }
    return agreed;
  }

  [[nodiscard]] tl::unexpected<error> mismatch(std::size_t self) const
  {
    char const* const operation = name_of(members_[self].offer.call.operation);
    std::vector<std::uint64_t> calls;
    calls.reserve(size());
    for (member const& each : members_) { calls.push_back(each.offer.call.word()); }
    std::vector<rank_id> differing = detail::dissenters(detail::span_of(calls));
    if (!differing.empty()) {
      return comm_failure::different_calls(operation, std::move(differing));
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      calls[peer] = members_[peer].offer.call.content;
    }
    if (auto found = detail::dissent_on_content(std::move(calls)); !found.ranks.empty()) {
      return comm_failure::different_content(operation, found.in_arrays, std::move(found.ranks));
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (!counts_agree(self, peer) || !counts_agree(peer, self)) {
        differing.push_back(to_id<rank_id>(peer));
      }
    }
    return comm_failure::different_counts(operation, std::move(differing));
  }

  void make_parts()
  {
    for (member& each : members_) { each.part.reset(); }
    for (member& first : members_) {
      if (first.part) { continue; }
      auto const same = [&](member const& other) {
        return other.offer.colour == first.offer.colour;
      };
      auto const ranks =
          static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(), same));
      auto const part = std::make_shared<thread_meeting>(ranks, deadline_);
      for (member& each : members_) {
        if (same(each)) { each.part = part; }
      }
    }
  }

  std::vector<member> members_;
  std::chrono::milliseconds deadline_;
  detail::thread_waits waits_;  // its mutex guards what follows too
  detail::thread_transfers transfers_;
  std::size_t here_ = 0;    // ranks that have arrived or, once all have, that have departed
  std::uint64_t turn_ = 0;  // grows when all have arrived, and again when all have departed
  bool agreed_ = false;     // whether all offers of the turn agree
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_THREAD_MEETING_HPP
