// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_HOST_SCRATCH_HPP
#define BALLAST_COMM_DETAIL_HOST_SCRATCH_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The scratch memory of a communicator whose arrays lie in host memory: whole cache lines, with
/// unspecified content.
///
/// Ensures     (1) the memory is aligned to 64 bytes
///             (2) a call that asks for no more than an earlier one allocates nothing, and neither
///                 moves nor changes the memory
/// Errors      std::bad_alloc and std::length_error; the earlier memory is then gone.
class host_scratch {
 public:
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes)
  {
    if (bytes > size()) {
      lines_ = std::vector<line>();  // first, so that old and new never take memory together
      lines_.resize(bytes / sizeof(line) + (bytes % sizeof(line) != 0 ? 1 : 0));
    }
    return std::as_writable_bytes(mutable_span_of(lines_)).first(bytes);
  }

  /// The most bytes that take() returns without allocating.
  [[nodiscard]] std::size_t size() const noexcept { return lines_.size() * sizeof(line); }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };

  std::vector<line> lines_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_HOST_SCRATCH_HPP
