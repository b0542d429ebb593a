// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/row_array.hpp>

#include <cstring>

namespace ballast::inline v0::detail {

/// What a message between two ranks begins with, so that none is taken for another of its size.
struct message_head {
  std::uint64_t number = 0;   // of the exchange, counted by both ranks
  std::uint64_t content = 0;  // a content_word

  friend bool operator==(message_head const&, message_head const&) = default;
};
static_assert(sizeof(message_head) == message_alignment);

/// Calls visit(bytes of a message with its head, peer) for all messages that are not empty.
template <class Visit>
void for_each_message(std::span<std::byte> messages, std::span<std::size_t const> bytes,
                      Visit visit)
{
  for (std::size_t peer = 0; peer < bytes.size(); ++peer) {
    if (bytes[peer] > 0) { visit(messages.first(bytes[peer]), peer); }
    messages = messages.subspan(bytes[peer]);
  }
}

/// Takes down the heads of messages that have come, and tells which are of other exchanges.
class message_heads {
 public:
  explicit message_heads(message_head expected) : expected_(expected) {}

  void take(std::span<std::byte const> message, rank_id peer)
  {
    message_head head;
    std::memcpy(&head, message.data(), sizeof(head));
    if (head == expected_) { return; }
    differing_.push_back(peer);
    in_arrays_ = in_arrays_ && head.content >> 32U == expected_.content >> 32U;
    late_ = late_ || head.number != expected_.number;
  }

  /// Errors      mismatch: `ranks` sent messages of another exchange, plan or arrays.
  [[nodiscard]] result<void> told(std::string_view operation)
  {
    constexpr std::string_view unread = "what came was not read";
    if (differing_.empty()) { return {}; }
    if (late_) {
      return comm_failure::mismatch(operation, "which exchange comes next", std::move(differing_),
                                    "make the same exchanges in the same order", unread);
    }
    return comm_failure::different_content(operation, in_arrays_, std::move(differing_), unread);
  }

 private:
  message_head expected_;
  std::vector<rank_id> differing_;
  bool in_arrays_ = true;  // only
  bool late_ = false;
};

}  // namespace ballast::inline v0::detail
