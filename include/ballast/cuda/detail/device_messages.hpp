// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_DEVICE_MESSAGES_HPP
#define BALLAST_CUDA_DETAIL_DEVICE_MESSAGES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The part of a mover that all movers on the device have in common: messages lie at the beginning
/// of the caller's temporary storage, and the rest of it is for the copies.
class device_messages {
 public:
  explicit device_messages(std::span<std::byte> temporary) : temporary_(temporary) {}

  /// Cuts the messages off the storage.
  ///
  /// Expects     some storage, at least temporary_storage::alignment - 1 more than `bytes`: copies
  ///             that are given no storage would only report how much they need.
  [[nodiscard]] std::span<std::byte> room(std::size_t bytes)
  {
    auto const address = reinterpret_cast<std::uintptr_t>(temporary_.data());
    std::size_t const skipped = -address % temporary_storage::alignment;
    BALLAST_EXPECTS(
        !temporary_.empty() && temporary_.size() >= skipped && temporary_.size() - skipped >= bytes,
        "messages of ", bytes, " bytes do not fit the temporary storage, of which ",
        temporary_.size(), " bytes are left");
    auto const messages = temporary_.subspan(skipped, bytes);
    temporary_ = temporary_.subspan(skipped + bytes);
    return messages;
  }

  /// The stream keeps the order: what unpack() queues comes after the messages.
  [[nodiscard]] result<void> arrive() const { return {}; }

  /// What is left for the copies.
  [[nodiscard]] std::span<std::byte> storage() const { return temporary_; }

 private:
  std::span<std::byte> temporary_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_DEVICE_MESSAGES_HPP
