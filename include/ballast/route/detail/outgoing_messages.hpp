// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_OUTGOING_MESSAGES_HPP
#define BALLAST_ROUTE_DETAIL_OUTGOING_MESSAGES_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Waits for transfers. After a failure other than a mismatch those that are left stay.
template <class C>
[[nodiscard]] result<void> end_transfers(C& comm, std::vector<transfer_id>& transfers)
{
  result<void> first;
  while (!transfers.empty()) {
    auto const done = comm.wait_for(transfers.back());
    if (!done && done.error().code != error_code::mismatch) { return done; }
    if (!done && first) { first = done; }
    transfers.pop_back();
  }
  return first;
}

/// Moves messages to memory that is never freed. They are leaked on purpose: MPI, a GPU or another
/// rank may still read or write them at any later time, also after their owner is gone, and nobody
/// is left who could wait for that.
template <class Bytes>
void give_up(Bytes& bytes)
{
  (void)new Bytes(std::move(bytes));
}

/// Cancels transfers of these bytes, which are given up where one cannot be.
template <class C, class Bytes>
void cancel_transfers(C& comm, std::vector<transfer_id>& transfers, Bytes& bytes)
{
  bool in_use = false;
  for (transfer_id const each : transfers) { in_use = !comm.cancel(each) || in_use; }
  transfers.clear();
  if (in_use) { give_up(bytes); }
}

/// The messages of calls that do not wait until what they send has arrived.
///
/// Ensures     (1) memory of messages that are under way is neither freed nor used again
///             (2) a failure of a send is told once, by the call that learns of it: a mismatch by
///                 finish(), any other also by unused()
template <class Allocator>
class outgoing_messages {
 public:
  using byte_array = std::vector<std::byte, Allocator>;

  /// The messages of one call, and those of its sends that have not ended.
  struct call {
    byte_array bytes;
    std::vector<transfer_id> sends;
  };

  explicit outgoing_messages(Allocator const& allocator) : allocator_(allocator) {}
  outgoing_messages(outgoing_messages&&) noexcept = default;
  outgoing_messages& operator=(outgoing_messages&&) = delete;
  ~outgoing_messages()
  {
    for (call& each : calls_) {
      if (!each.sends.empty()) { give_up(each.bytes); }
    }
  }

  /// Returns messages whose sends have ended, new ones if there are none: the smallest that have
  /// room for so many bytes, or else the largest. They become the last, as those of the newest
  /// call.
  template <class C>
  [[nodiscard]] result<call*> unused(C& comm, std::size_t bytes)
  {
    std::size_t best = calls_.size();
    for (std::size_t index = 0; index < calls_.size(); ++index) {
      auto& sends = calls_[index].sends;
      bool all_done = true;
      for (std::size_t send = 0; send < sends.size() && all_done; ++send) {
        auto const done = comm.is_done(sends[send]);
        if (!done) { return tl::unexpected(done.error()); }
        all_done = *done;
      }
      if (!all_done) { continue; }
      if (auto const ended = end_transfers(comm, sends); !ended) {
        if (ended.error().code != error_code::mismatch) { return tl::unexpected(ended.error()); }
        if (earlier_) { earlier_ = ended; }  // which is not this call's: finish() tells
      }
      std::size_t const room = calls_[index].bytes.size();
      std::size_t const least = best < calls_.size() ? calls_[best].bytes.size() : 0;
      bool const better = least >= bytes ? room >= bytes && room < least : room > least;
      if (best == calls_.size() || better) { best = index; }
    }
    if (best < calls_.size()) {
      auto const found = calls_.begin() + static_cast<std::ptrdiff_t>(best);
      std::rotate(found, found + 1, calls_.end());
    } else if (bytes > 0 || calls_.empty()) {  // where nothing leaves, any will do
      calls_.push_back({byte_array(allocator_), {}});
    }
    return &calls_.back();
  }

  /// Waits for all sends.
  ///
  /// Errors      those of the transfers; a mismatch also where unused() met it.
  template <class C>
  [[nodiscard]] result<void> finish(C& comm)
  {
    result<void> done = std::exchange(earlier_, {});
    for (call& each : calls_) {
      auto const ended = end_transfers(comm, each.sends);
      if (!ended && (done || ended.error().code != error_code::mismatch)) { done = ended; }
    }
    return done;
  }

  /// Ends all sends, the newest call's first. The oldest would leave a receive of a peer that does
  /// not know yet to the message of the next call.
  template <class C>
  void cancel(C& comm)
  {
    earlier_ = {};
    for (std::size_t index = calls_.size(); index > 0; --index) {
      cancel_transfers(comm, calls_[index - 1].sends, calls_[index - 1].bytes);
    }
  }

 private:
  Allocator allocator_;
  std::vector<call> calls_;  // in the order in which they were made
  result<void> earlier_;     // a mismatch of messages that an earlier call has sent
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_OUTGOING_MESSAGES_HPP
