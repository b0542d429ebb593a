// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/message_array.hpp>

#include <cuda_runtime_api.h>  // cudaMalloc, cudaFree

#include <new>

namespace ballast::inline v0 {

/// Returns the error of `call`, with CUDA's code and text.
///
/// Resets CUDA's last error, so that the caller's next check does not report the failure a second
/// time.
[[nodiscard]] inline tl::unexpected<error> cuda_failure(std::string_view call, cudaError_t code)
{
  (void)cudaGetLastError();
  return comm_failure::transport(call, code, cudaGetErrorString(code));
}

/// Returns the result of `call`, which returned `code`.
[[nodiscard]] inline result<void> cuda_result(std::string_view call, cudaError_t code)
{
  return code == cudaSuccess ? result<void>() : cuda_failure(call, code);
}

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

namespace detail {

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

}  // namespace detail

}  // namespace ballast::inline v0
