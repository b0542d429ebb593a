// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

namespace ballast::inline v0::detail {

/// The part of a mover that all movers on the device have in common: messages lie at the beginning
/// of the caller's temporary storage. What the GPU keeps is copied on the side stream while messages
/// travel or, without one, as a part of unpacking.
class device_messages {
 public:
  device_messages(std::span<std::byte> temporary, side_stream const* side, cudaStream_t stream)
      : temporary_(temporary), side_(side), stream_(stream)
  {}

  /// Cuts the messages off the storage.
  ///
  /// Expects     some storage, at least temporary_storage::alignment - 1 more than `bytes`.
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
    messages_ = messages.data();
    return messages;
  }

  /// The stream keeps the order: what unpack() queues comes after the messages.
  [[nodiscard]] result<void> arrive() const { return {}; }

 protected:
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// What `call` said as it queued packing.
  [[nodiscard]] result<void> packed(char const* call, cudaError_t code) const
  {
    if (code != cudaSuccess) { return cuda_failure(call, code); }
    return side_ == nullptr ? result<void>()
                            : cuda_result("side_stream::mark", side_->mark(stream_));
  }

  /// Queues unpack(messages, unpack_part::kept, stream) beside the messages, of which it reads none.
  template <class Unpack>
  [[nodiscard]] result<void> keep_beside(Unpack const& unpack) const
  {
    if (side_ == nullptr) { return {}; }
    return cuda_result("side_stream::beside", side_->beside(stream_, [&](cudaStream_t own) {
      return unpack(static_cast<std::byte const*>(messages_), unpack_part::kept, own);
    }));
  }

  /// What is left to unpack when the messages are there.
  [[nodiscard]] unpack_part left() const
  {
    return side_ == nullptr ? unpack_part::all : unpack_part::messages;
  }

 private:
  std::span<std::byte> temporary_;
  std::byte* messages_ = nullptr;  // some of them
  side_stream const* side_;
  cudaStream_t stream_;
};

}  // namespace ballast::inline v0::detail
