// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DEVICE_ALLOCATOR_HPP
#define BALLAST_GPU_DEVICE_ALLOCATOR_HPP

#include <ballast/core/contract.hpp>

#include <cuda_runtime_api.h>  // cudaMallocAsync, cudaFreeAsync, cudaMemcpyAsync

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>

namespace ballast::inline v0 {

/// An allocator of memory of the device, in the order of a stream, for what copies rows by its
/// means: `pipeline_runner<device_allocator<std::byte>>`. The host must not read it, so it serves no
/// std::vector.
///
///     device_allocator<std::byte> const memory(computes, reads);
///
/// copy and write join the stream that computes, behind the kernels that made what is copied. read
/// waits for its own copy on the other stream, and not for these kernels.
///
/// Expects     both streams are of the device that is current, and outlive the allocator. What write
///             is given stays as it is. What read is given nobody writes.
/// Ensures     (1) memory is aligned to 256 bytes
///             (2) no call waits for the device
/// Errors      std::bad_alloc if CUDA refuses; std::bad_array_new_length. Where CUDA cannot copy,
///             its next call says so; what read returns is then all ones.
template <class T>
class device_allocator {
 public:
  using value_type = T;

  device_allocator(cudaStream_t computes, cudaStream_t reads) noexcept
      : computes_(computes), reads_(reads)
  {}

  [[nodiscard]] T* allocate(std::size_t count)
  {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    void* memory = nullptr;
    if (cudaMallocAsync(&memory, count * sizeof(T), computes_) != cudaSuccess) {
      (void)cudaGetLastError();  // so that the caller's next check does not report it again
      throw std::bad_alloc();
    }
    return static_cast<T*>(memory);
  }

  void deallocate(T* memory, std::size_t) noexcept { (void)cudaFreeAsync(memory, computes_); }

  void copy(std::byte* to, std::byte const* from, std::size_t bytes) const
  {
    (void)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, computes_);
  }
  void write(std::byte* to, std::byte const* from, std::size_t bytes) const
  {
    (void)cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, computes_);
  }
  void read(std::byte* to, std::byte const* from, std::size_t bytes) const
  {
    std::memset(to, 0xff, bytes);
    (void)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, reads_);
    (void)cudaStreamSynchronize(reads_);
  }

  friend bool operator==(device_allocator const&, device_allocator const&) = default;

 private:
  cudaStream_t computes_;
  cudaStream_t reads_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_GPU_DEVICE_ALLOCATOR_HPP
