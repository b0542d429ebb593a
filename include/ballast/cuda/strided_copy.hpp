// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_STRIDED_COPY_HPP
#define BALLAST_CUDA_STRIDED_COPY_HPP

#include <ballast/core/contract.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ballast::inline v0 {

/// A copy of `rows` runs of `run` bytes, which begin a stride apart in the source and in the
/// destination: rows of tokens, or some heads of tokens. A single run, and runs without gaps on
/// both sides, are one contiguous copy.
///
/// Expects     from and to do not overlap; with two rows or more, to_stride >= run.
struct strided_copy {
  std::byte const* from = nullptr;
  std::byte* to = nullptr;
  std::size_t from_stride = 0;
  std::size_t to_stride = 0;
  std::size_t run = 0;
  std::size_t rows = 0;

  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr strided_copy contiguous(std::byte const* from,
                                                                             std::byte* to,
                                                                             std::size_t bytes)
  {
    return {from, to, bytes, bytes, bytes, 1};
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t bytes() const { return run * rows; }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr bool is_contiguous() const
  {
    return rows <= 1 || (from_stride == run && to_stride == run);
  }
};

/// A function that returns the i-th of many copies, on the host and on the device. The GPU computes
/// each copy when it makes it, so no list of pointers is sent to the GPU.
///
/// Kernels take it by value. Copies may be empty; no destination overlaps another or a source.
template <class List>
concept copy_list =
    std::is_trivially_copyable_v<List> && requires(List const& list, std::uint32_t index) {
      { list(index) } -> std::same_as<strided_copy>;
    };

/// Promises, by `static constexpr bool contiguous = true`, that all its copies are contiguous.
template <class List>
concept contiguous_copy_list = copy_list<List> && requires { requires List::contiguous; };

/// Makes something beside its copies, such as zeros between them, that depends on none of them:
/// make_rest(thread, threads) makes one thread's part.
template <class List>
concept makes_more = copy_list<List> && requires(List const& list, std::uint32_t thread) {
  { list.make_rest(thread, thread) } -> std::same_as<void>;
};

/// Unpacks: its first from_messages() copies read messages, and the rest what a GPU keeps.
template <class List>
concept unpacking_list = copy_list<List> && requires(List const& list) {
  { list.from_messages() } -> std::same_as<std::uint32_t>;
};

/// What an unpack function writes: all that belongs on the GPU, or only what messages bring, or only
/// what the GPU keeps.
enum class unpack_part : std::uint8_t { all, messages, kept };

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_STRIDED_COPY_HPP
