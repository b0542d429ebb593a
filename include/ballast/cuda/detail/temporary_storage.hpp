// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <cuda_runtime.h>

namespace ballast::inline v0::detail {

/// Cuts the caller's temporary storage into arrays, or computes how much storage is needed.
///
/// A function that takes `void* temporary, std::size_t& temporary_bytes` as CUB's do makes one of
/// these, takes its arrays in the same order whether or not there is memory, and asks
/// is_only_asking() before it queues anything.
///
/// Ensures     (1) arrays are aligned to 256 bytes as cudaMalloc's are, whatever `temporary` is
///             (2) without memory take() gives null pointers, and bytes() is what suffices
class temporary_storage {
 public:
  static constexpr std::size_t alignment = 256;

  explicit temporary_storage(void* temporary) : memory_(static_cast<std::byte*>(temporary))
  {
    // bytes() always includes room for this, so that the size does not depend on the pointer.
    auto const address = reinterpret_cast<std::uintptr_t>(temporary);
    skipped_ = (alignment - address % alignment) % alignment;
  }

  template <class T>
  [[nodiscard]] T* take(std::size_t count)
  {
    std::size_t const begin = used_;
    used_ += (count * sizeof(T) + alignment - 1) / alignment * alignment;
    return is_only_asking() ? nullptr : reinterpret_cast<T*>(memory_ + skipped_ + begin);
  }

  [[nodiscard]] std::byte* begin() const noexcept { return memory_ + skipped_; }

  [[nodiscard]] bool is_only_asking() const noexcept { return memory_ == nullptr; }

  /// What was taken so far needs this many bytes; never 0, for which an allocation may return null.
  [[nodiscard]] std::size_t bytes() const noexcept { return used_ + alignment; }

 private:
  std::byte* memory_;
  std::size_t skipped_;
  std::size_t used_ = 0;
};

/// Reads how many multiprocessors the current device has. CUDA knows it on the host, so this works in
/// a capture too.
[[nodiscard]] inline cudaError_t count_multiprocessors(int& count)
{
  int device = 0;
  if (auto const error = cudaGetDevice(&device); error != cudaSuccess) { return error; }
  return cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
}

template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch(void (*kernel)(Parameters...), std::size_t blocks,
                                 unsigned threads, cudaStream_t stream,
                                 Arguments const&... arguments)
{
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace ballast::inline v0::detail
