// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_LENT_MEMORY_HPP
#define BALLAST_GPU_DETAIL_LENT_MEMORY_HPP

#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>

#include <cuda_runtime_api.h>  // cudaMalloc, cudaIpcGetMemHandle, cudaIpcOpenMemHandle

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// An allocation, as its process tells others of it.
struct lent_allocation {
  std::byte* begin;  ///< its address in that process
  std::uint64_t bytes;
  cudaIpcMemHandle_t handle;
};

/// Device memory that other processes reach, and what this one has opened of theirs.
///
/// It is allocated here and kept until the end: a handle names a whole allocation of cudaMalloc,
/// and CUDA leaves undefined what happens if that is freed while another process has it open.
///
/// Expects     the same device is current in all calls.
/// Ensures     (1) an allocation is opened once, when it is first reached
///             (2) memory is a multiple of 2 MiB, so that no handle lends what others allocated
///             (3) nothing is freed unless free() is called: memory that a peer may have open stays
///                 until the process ends
class lent_memory {
 public:
  /// At least as many bytes.
  [[nodiscard]] result<std::span<std::byte>> lend(std::size_t bytes)
  {
    constexpr std::size_t unit = std::size_t{1} << 21U;
    std::size_t const room = (bytes + unit - 1) / unit * unit;
    void* memory = nullptr;
    if (auto const code = cudaMalloc(&memory, room); code != cudaSuccess) {
      return cuda_failure("cudaMalloc", code);
    }
    lent_allocation made{static_cast<std::byte*>(memory), room, {}};
    if (auto const code = cudaIpcGetMemHandle(&made.handle, memory); code != cudaSuccess) {
      auto const why = cuda_failure("cudaIpcGetMemHandle", code);
      (void)cudaFree(memory);
      return why;
    }
    own_.push_back(made);
    return std::span(static_cast<std::byte*>(memory), room);
  }

  /// The own allocation in which all of the array lies, or nullptr.
  [[nodiscard]] lent_allocation const* find(std::span<std::byte const> array) const
  {
    auto const address = [](std::byte const* at) { return reinterpret_cast<std::uintptr_t>(at); };
    for (lent_allocation const& each : own_) {
      if (address(array.data()) < address(each.begin)) { continue; }
      std::uintptr_t const offset = address(array.data()) - address(each.begin);
      if (offset + array.size() <= each.bytes) { return &each; }
    }
    return nullptr;
  }

  /// Where this process sees another's array, which lies in that allocation.
  [[nodiscard]] result<std::span<std::byte const>> reach(lent_allocation const& of_peer,
                                                         std::span<std::byte const> there)
  {
    std::ptrdiff_t const offset = there.data() - of_peer.begin;
    for (opened const& each : opened_) {
      if (std::memcmp(&each.handle, &of_peer.handle, sizeof(each.handle)) == 0) {
        return std::span<std::byte const>(each.memory + offset, there.size());
      }
    }
    void* memory = nullptr;
    auto const code = cudaIpcOpenMemHandle(&memory, of_peer.handle, cudaIpcMemLazyEnablePeerAccess);
    if (code != cudaSuccess) { return cuda_failure("cudaIpcOpenMemHandle", code); }
    opened_.push_back({of_peer.handle, static_cast<std::byte*>(memory)});
    return std::span<std::byte const>(opened_.back().memory + offset, there.size());
  }

  /// Closes what is other processes'. Expects that no copy uses it.
  void close()
  {
    for (opened const& each : opened_) { (void)cudaIpcCloseMemHandle(each.memory); }
    opened_.clear();
  }

  /// Frees what is this process's. Expects that no other process has it open.
  void free()
  {
    for (lent_allocation const& each : own_) { (void)cudaFree(each.begin); }
    own_.clear();
  }

 private:
  struct opened {
    cudaIpcMemHandle_t handle;
    std::byte* memory;
  };

  std::vector<lent_allocation> own_;
  std::vector<opened> opened_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_LENT_MEMORY_HPP
