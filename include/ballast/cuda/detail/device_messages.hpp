// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

namespace ballast::inline v0::detail {

/// Queues the copies of an exchange on a stream, by a prepared_route or a prepared_heads. Messages
/// lie at the beginning of the caller's temporary storage. What the GPU keeps is copied on the side
/// stream while messages travel or, without one, as a part of unpacking.
template <class Prepared, class Arrays>
class device_mover {
 public:
  device_mover(Prepared const& ready, bool forward, Arrays const& arrays,
               std::span<std::byte> temporary, cudaStream_t stream)
      : ready_(ready), forward_(forward), arrays_(arrays), temporary_(temporary), stream_(stream)
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

  [[nodiscard]] result<void> pack(std::span<std::byte> outgoing) const
  {
    if (auto const code = ready_.pack(forward_, arrays_, outgoing.data(), stream_);
        code != cudaSuccess) {
      return cuda_failure("packing on the device", code);
    }
    return side() == nullptr ? result<void>()
                             : cuda_result("side_stream::mark", side()->mark(stream_));
  }

  [[nodiscard]] result<void> keep() const
  {
    if (side() == nullptr) { return {}; }
    return cuda_result("side_stream::beside", side()->beside(stream_, [&](cudaStream_t own) {
      return ready_.unpack(forward_, arrays_, messages_, own, unpack_part::kept);
    }));
  }

  /// The stream keeps the order: what unpack() queues comes after the messages.
  [[nodiscard]] result<void> arrive() const { return {}; }

  [[nodiscard]] result<void> unpack(std::span<std::byte const> incoming) const
  {
    auto const part = side() == nullptr ? unpack_part::all : unpack_part::messages;
    return cuda_result("unpacking on the device",
                       ready_.unpack(forward_, arrays_, incoming.data(), stream_, part));
  }

 private:
  [[nodiscard]] side_stream const* side() const { return ready_.beside(); }

  Prepared const& ready_;
  bool forward_;
  Arrays arrays_;
  std::span<std::byte> temporary_;
  std::byte* messages_ = nullptr;  // some of them
  cudaStream_t stream_;
};

}  // namespace ballast::inline v0::detail
