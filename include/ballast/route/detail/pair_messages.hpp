// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/message_array.hpp>
#include <ballast/route/row_array.hpp>

namespace ballast::inline v0::detail {

/// What a message between two ranks begins with, so that none is taken for another of its size.
struct message_head {
  std::uint64_t number = 0;   // of the exchange, counted by both ranks
  std::uint64_t content = 0;  // a content_word

  friend bool operator==(message_head const&, message_head const&) = default;
};
static_assert(sizeof(message_head) == message_alignment);

/// Adds `head` bytes to each message that has any, and returns the bytes of all.
inline std::size_t add_heads(std::span<std::size_t> sizes, std::size_t head)
{
  std::size_t all = 0;
  for (std::size_t& each : sizes) {
    each += each > 0 ? head : 0;
    all += each;
  }
  return all;
}

/// The messages that a rank exchanges in pairs, one after the other in memory, and their transfers:
/// either what leaves it or what comes. Peer p is rank first + p; with none no message has bytes.
///
/// Ensures     (1) begin() allocates nothing
///             (2) memory that may still be in use is never freed: MPI, a GPU or another rank may read
///                 or write it at any later time, also after its owner is gone
template <class Allocator>
class pair_messages {
 public:
  explicit pair_messages(Allocator const& memory) : bytes_(memory) {}
  pair_messages(pair_messages&&) noexcept = default;
  pair_messages& operator=(pair_messages&&) = delete;
  ~pair_messages()
  {
    if (!transfers_.empty()) { bytes_.leak(); }
  }

  /// Makes room for messages of these sizes, and for their transfers.
  void hold(std::span<std::size_t const> sizes)
  {
    transfers_.reserve(sizes.size());
    sizes_.assign(sizes.begin(), sizes.end());
    (void)bytes_.at_least(std::reduce(sizes.begin(), sizes.end()));
  }

  /// All messages.
  [[nodiscard]] std::span<std::byte> bytes() const
  {
    return bytes_.first(std::reduce(sizes_.begin(), sizes_.end()));
  }
  /// For so many bytes there is room.
  [[nodiscard]] std::size_t room() const { return bytes_.size(); }

  [[nodiscard]] std::vector<transfer_id>& transfers() { return transfers_; }

  void write_head(message_head const& head)
  {
    for_each([&](std::span<std::byte> message, std::size_t) {
      std::memcpy(message.data(), &head, sizeof(head));
    });
  }

  /// Errors      mismatch: `ranks` sent messages of another exchange, plan or arrays.
  [[nodiscard]] result<void> expect_head(message_head const& expected, rank_id first) const
  {
    constexpr std::string_view unread = "what came was not read";
    std::vector<rank_id> differing;
    bool in_arrays = true;  // only
    bool late = false;
    for_each([&](std::span<std::byte const> message, std::size_t peer) {
      message_head head;
      std::memcpy(&head, message.data(), sizeof(head));
      if (head == expected) { return; }
      differing.push_back(to_id<rank_id>(to_index(first) + peer));
      in_arrays = in_arrays && head.content >> 32U == expected.content >> 32U;
      late = late || head.number != expected.number;
    });
    if (differing.empty()) { return {}; }
    if (late) {
      return comm_failure::mismatch("receive", "which exchange comes next", std::move(differing),
                                    "make the same exchanges in the same order", unread);
    }
    return comm_failure::different_content("receive", in_arrays, std::move(differing), unread);
  }

  /// Begins transfer(bytes, rank) of each message.
  template <class Transfer>
  [[nodiscard]] result<void> begin(rank_id first, Transfer const& transfer)
  {
    result<void> done;
    for_each([&](std::span<std::byte> message, std::size_t peer) {
      if (!done) { return; }
      auto const begun = transfer(message, to_id<rank_id>(to_index(first) + peer));
      if (begun) {
        transfers_.push_back(*begun);
      } else {
        done = tl::unexpected(begun.error());
      }
    });
    return done;
  }

  /// Waits for the transfers; after a mismatch only `to_the_last`. After another failure those that
  /// are left stay.
  template <class C>
  [[nodiscard]] result<void> end(C& comm, bool to_the_last)
  {
    result<void> first;
    while (!transfers_.empty() && (first || to_the_last)) {
      auto const done = comm.wait_for(transfers_.back());
      if (!done && done.error().code != error_code::mismatch) { return done; }
      transfers_.pop_back();
      if (!done && first) { first = done; }
    }
    return first;
  }

  /// Ends the transfers; their memory is given up where one cannot be cancelled.
  template <class C>
  void cancel(C& comm)
  {
    bool in_use = false;
    for (transfer_id const each : transfers_) { in_use = !comm.cancel(each) || in_use; }
    transfers_.clear();
    if (in_use) { bytes_.leak(); }
  }

 private:
  /// Calls visit(message, peer) for all messages that have bytes.
  template <class Visit>
  void for_each(Visit const& visit) const
  {
    std::span<std::byte> rest = bytes();
    for (std::size_t peer = 0; peer < sizes_.size(); ++peer) {
      if (sizes_[peer] > 0) { visit(rest.first(sizes_[peer]), peer); }
      rest = rest.subspan(sizes_[peer]);
    }
  }

  message_array<Allocator> bytes_;
  std::vector<std::size_t> sizes_;  ///< by peer
  std::vector<transfer_id> transfers_;
};

}  // namespace ballast::inline v0::detail
