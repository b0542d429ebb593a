// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DEVICE_ARRAY_HPP
#define BALLAST_GPU_DEVICE_ARRAY_HPP

#include <ballast/core/contract.hpp>

#include <cuda_runtime_api.h>  // cudaMalloc, cudaFree

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// An array in the memory of the thread's current device, for data that lives longer than a step.
///
/// In, out     construction and destruction may wait for the whole device: keep both outside the
///             steady state.
/// Ensures     its elements are uninitialised, and aligned to 256 bytes
/// Errors      std::bad_alloc if CUDA refuses, whatever its reason; std::bad_array_new_length.
template <class T>
  requires std::is_trivially_copyable_v<T>
class device_array {
 public:
  device_array() = default;

  explicit device_array(std::size_t count) : count_(count)
  {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    if (count == 0) { return; }
    void* memory = nullptr;
    if (cudaMalloc(&memory, count * sizeof(T)) != cudaSuccess) {
      (void)cudaGetLastError();  // so that the caller's next check does not report it again
      throw std::bad_alloc();
    }
    memory_.reset(static_cast<T*>(memory));
  }

  [[nodiscard]] T* data() const noexcept { return memory_.get(); }
  /// 0 if it was moved from.
  [[nodiscard]] std::size_t size() const noexcept { return memory_ != nullptr ? count_ : 0; }

  /// For functions that take spans: the host must not read it.
  [[nodiscard]] std::span<T> span() const noexcept { return {data(), size()}; }

 private:
  struct release {
    void operator()(T* memory) const noexcept { (void)cudaFree(memory); }
  };

  std::unique_ptr<T, release> memory_;
  std::size_t count_ = 0;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_DEVICE_ARRAY_HPP
