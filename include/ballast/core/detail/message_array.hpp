// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// Memory that grows, and gives nothing back before its end: to free memory of a GPU, CUDA may wait
/// for the device, and so for a peer whose kernel waits for this thread.
///
/// Block       has a size().
/// Ensures     (1) a block stays where it is, and valid, until the end
///             (2) each block has at least twice the size of the one before, so that all together
///                 have less than twice that of the last, and few are made
/// Errors      those of make; the blocks are then what they were.
template <class Block>
class growing_memory {
 public:
  [[nodiscard]] bool has(std::size_t count) const
  {
    return !blocks_.empty() && blocks_.back().size() >= count;
  }

  /// The last block if it has so many elements, or a new one of them or more, make(elements).
  template <class Make>
  [[nodiscard]] Block& at_least(std::size_t count, Make const& make)
  {
    if (!has(count)) {
      std::size_t const before = blocks_.empty() ? 0 : blocks_.back().size();
      blocks_.push_back(make(std::max(count, 2 * before)));
    }
    return blocks_.back();
  }

 private:
  std::list<Block> blocks_;
};

/// An allocator of memory that the host does not reach, as `device_allocator`: it copies.
template <class A>
concept remote_memory =
    requires(A const& memory, std::byte* to, std::byte const* from, std::size_t bytes) {
      memory.copy(to, from, bytes);   // inside it
      memory.write(to, from, bytes);  // from the host, where the bytes stay as they are
      memory.read(to, from, bytes);   // to the host
    };

/// Bytes of an allocator, which nobody has written.
template <class Allocator>
class message_array {
 public:
  explicit message_array(Allocator const& memory) : memory_(memory) {}
  message_array(message_array&& other) noexcept
      : memory_(other.memory_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0))
  {}
  message_array& operator=(message_array&&) = delete;
  ~message_array() { free(); }

  /// Returns so many bytes; where there were fewer, what was there is lost.
  std::span<std::byte> grow(std::size_t bytes)
  {
    if (bytes > size_) {
      free();
      data_ = std::allocator_traits<Allocator>::allocate(memory_, bytes);
      size_ = bytes;
    }
    return first(bytes);
  }

  /// The same, with twice the bytes that were there at least, so that it seldom grows.
  std::span<std::byte> at_least(std::size_t bytes)
  {
    if (bytes > size_) { grow(std::max(bytes, 2 * size_)); }
    return first(bytes);
  }

  /// Leaks them on purpose: the library below may use them at any later time.
  void leak() noexcept
  {
    data_ = nullptr;
    size_ = 0;
  }

  [[nodiscard]] std::span<std::byte> first(std::size_t bytes) const { return {data_, bytes}; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void copy(std::byte* to, std::byte const* from, std::size_t bytes) const
  {
    if constexpr (remote_memory<Allocator>) {
      memory_.copy(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  void write(std::byte* to, std::byte const* from, std::size_t bytes) const
  {
    if constexpr (remote_memory<Allocator>) {
      memory_.write(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  void read(std::byte* to, std::byte const* from, std::size_t bytes) const
  {
    if constexpr (remote_memory<Allocator>) {
      memory_.read(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }

 private:
  void free() noexcept
  {
    if (data_ != nullptr) {
      std::allocator_traits<Allocator>::deallocate(memory_, std::exchange(data_, nullptr), size_);
    }
    size_ = 0;
  }

  Allocator memory_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ballast::inline v0::detail
