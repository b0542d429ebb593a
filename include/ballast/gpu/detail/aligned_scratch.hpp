// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_ALIGNED_SCRATCH_HPP
#define BALLAST_GPU_DETAIL_ALIGNED_SCRATCH_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The scratch memory of a communicator, from `Allocator`, whatever the alignment of its memory.
///
/// Ensures     (1) the memory is aligned to 64 bytes
///             (2) a call that asks for no more than an earlier one allocates nothing, and neither
///                 moves nor changes the memory
///             (3) quiesce() is called before memory is freed, to wait for work that still uses it
/// Errors      those of the allocator; the earlier memory is then gone.
template <class Allocator>
class aligned_scratch {
 public:
  explicit aligned_scratch(Allocator const& allocator) : memory_(allocator) {}

  template <class Quiesce>
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes, Quiesce quiesce)
  {
    constexpr std::size_t alignment = 64;
    std::size_t const room = bytes + alignment - 1;
    if (memory_.size() < room) {
      quiesce();
      // First, so that nothing is copied, and old and new never take memory together.
      memory_ = byte_array(memory_.get_allocator());
      memory_.resize(room);
    }
    void* first = memory_.data();
    std::size_t space = memory_.size();
    return {static_cast<std::byte*>(std::align(alignment, bytes, first, space)), bytes};
  }

  [[nodiscard]] Allocator get_allocator() const { return memory_.get_allocator(); }

 private:
  using byte_array = std::vector<std::byte, Allocator>;

  byte_array memory_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_ALIGNED_SCRATCH_HPP
