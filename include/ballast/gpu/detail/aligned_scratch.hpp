// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_ALIGNED_SCRATCH_HPP
#define BALLAST_GPU_DETAIL_ALIGNED_SCRATCH_HPP

#include <ballast/core/detail/message_array.hpp>

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
///             (3) quiesce() is called before memory is allocated, for which CUDA may wait
///             (4) nothing is freed before the end, and what was outgrown takes less than what is
///                 used: a peer that waits for this thread may hold up the device, and so a free
/// Errors      those of the allocator; the memory is then what it was.
template <class Allocator>
class aligned_scratch {
 public:
  explicit aligned_scratch(Allocator const& allocator) : allocator_(allocator) {}

  template <class Quiesce>
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes, Quiesce quiesce)
  {
    constexpr std::size_t alignment = 64;
    auto& memory = memory_.at_least(bytes + alignment - 1, [&](std::size_t room) {
      quiesce();
      return byte_array(room, allocator_);
    });
    void* first = memory.data();
    std::size_t space = memory.size();
    return {static_cast<std::byte*>(std::align(alignment, bytes, first, space)), bytes};
  }

  [[nodiscard]] Allocator get_allocator() const { return allocator_; }

 private:
  using byte_array = std::vector<std::byte, Allocator>;

  Allocator allocator_;
  growing_memory<byte_array> memory_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_ALIGNED_SCRATCH_HPP
