// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Scratch memory that a training loop keeps, so that a step allocates nothing.
///
/// A function that needs scratch opens a frame, takes arrays from it, and gives them back together
/// when the frame goes out of scope. Frames nest like the calls that open them. One workspace
/// serves one thread; a policy nested in a policy uses its caller's.
///
/// Expects     of frames that are open at the same time, only the innermost gives out arrays, and
///             it closes first.
/// Ensures     (1) arrays of live frames do not overlap and are aligned for their type
///             (2) once a sequence of calls has run, running it again with arrays no larger
///                 allocates nothing
///             (3) arrays stay where they are until their frame closes
/// Errors      only std::bad_alloc, from take().
/// Complexity  take: O(1).
class workspace {
 public:
  /// Gives out arrays, and takes them back when it goes out of scope.
  class frame {
   public:
    explicit frame(workspace& owner) noexcept
        : owner_(owner), block_(owner.block_), used_(owner.used_), depth_(++owner.open_)
    {}
    frame& operator=(frame&&) = delete;
    ~frame()
    {
      expect_innermost("was closed");
      --owner_.open_;
      owner_.rewind(block_, used_);
    }

    /// An array of `count` elements that lives as long as this frame. Its content is unspecified.
    template <class T>
      requires(std::is_trivially_copyable_v<T>)
    [[nodiscard]] std::span<T> take(std::size_t count)
    {
      static_assert(alignof(T) <= alignment);
      expect_innermost("was asked for an array");
      // Arrays of bytes create the objects that are used in them, so there is nothing to construct.
      return {reinterpret_cast<T*>(owner_.allocate(count * sizeof(T))), count};
    }

   private:
    void expect_innermost(char const* what) const
    {
      BALLAST_EXPECTS(depth_ == owner_.open_, "frame ", depth_, " of a workspace ", what,
                      " while frame ", owner_.open_, " is the innermost");
    }

    workspace& owner_;
    std::size_t block_;
    std::size_t used_;
    std::size_t depth_;  ///< frames that were open with it
  };

  /// Opens a frame; keep it in a local variable, since it closes at the end of its scope.
  [[nodiscard]] frame open() noexcept { return frame(*this); }

 private:
  static constexpr std::size_t alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

  /// Bytes of the heap. <memory> would own them too, and takes 0.2 s of every file.
  struct block {
    explicit block(std::size_t count)
        : memory(static_cast<std::byte*>(::operator new(count))), bytes(count)
    {}
    block(block&& other) noexcept : memory(std::exchange(other.memory, nullptr)), bytes(other.bytes)
    {}
    block& operator=(block&&) = delete;
    ~block() { ::operator delete(memory); }

    std::byte* memory;
    std::size_t bytes;
  };

  [[nodiscard]] std::byte* allocate(std::size_t bytes)
  {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    // Forward only, past blocks that are too small: then no array lies further on than it did in a
    // run with larger arrays, so (2) holds for smaller arrays too.
    while (block_ < blocks_.size() && blocks_[block_].bytes - used_ < bytes) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) {
      std::size_t const doubled = blocks_.empty() ? 0 : 2 * blocks_.back().bytes;
      std::size_t const size = std::max(bytes, doubled);
      blocks_.emplace_back(size);
    }
    auto* const memory = blocks_[block_].memory + used_;
    used_ += bytes;
    return memory;
  }

  void rewind(std::size_t block_index, std::size_t used) noexcept
  {
    block_ = block_index;
    used_ = used;
  }

  std::vector<block> blocks_;
  std::size_t block_ = 0;
  std::size_t used_ = 0;
  std::size_t open_ = 0;  ///< frames
};

}  // namespace ballast::inline v0
