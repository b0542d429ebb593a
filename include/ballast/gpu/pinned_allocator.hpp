// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_PINNED_ALLOCATOR_HPP
#define BALLAST_GPU_PINNED_ALLOCATOR_HPP

#include <ballast/core/contract.hpp>

#include <cuda_runtime_api.h>  // cudaMallocHost, cudaFreeHost

#include <cstddef>
#include <limits>
#include <new>

namespace ballast::inline v0 {

/// An allocator of page-locked host memory, which the GPU and NCCL reach by the same pointer:
/// `std::vector<float, pinned_allocator<float>>`.
///
/// In, out     allocate and deallocate may wait for the whole device: call them outside the steady
///             state.
/// Ensures     (1) memory is aligned to at least 64 bytes
///             (2) what one instance allocated any other can free
/// Errors      std::bad_alloc if CUDA refuses, whatever its reason; std::bad_array_new_length.
template <class T>
struct pinned_allocator {
  using value_type = T;

  pinned_allocator() = default;
  template <class U>
  constexpr pinned_allocator(pinned_allocator<U> const&) noexcept
  {}

  [[nodiscard]] T* allocate(std::size_t count)
  {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    void* memory = nullptr;
    if (cudaMallocHost(&memory, count * sizeof(T)) != cudaSuccess) {
      (void)cudaGetLastError();  // so that the caller's next check does not report it again
      throw std::bad_alloc();
    }
    return static_cast<T*>(memory);
  }

  void deallocate(T* memory, std::size_t) noexcept { (void)cudaFreeHost(memory); }

  friend bool operator==(pinned_allocator const&, pinned_allocator const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_PINNED_ALLOCATOR_HPP
