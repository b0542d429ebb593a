// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_COPY_ENGINE_BATCH_HPP
#define BALLAST_GPU_DETAIL_COPY_ENGINE_BATCH_HPP

#include <ballast/core/config.hpp>

#include <cuda_runtime_api.h>  // cudaMemcpyBatchAsync

#include <cstddef>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Copies that join a stream together, and are made in any order.
///
/// A single cudaMemcpyAsync within a GPU is a kernel on its multiprocessors; only a batch can ask
/// for the copy engines, which leave the multiprocessors to kernels. CUDA takes that as a hint.
///
/// Expects     no copy reads or writes what another writes; the stream is not the legacy default.
/// Ensures     nothing is allocated for up to as many copies as it was made for
class copy_engine_batch {
 public:
  explicit copy_engine_batch(std::size_t copies)
  {
    to_.reserve(copies);
    from_.reserve(copies);
    bytes_.reserve(copies);
  }

  void clear() noexcept
  {
    to_.clear();
    from_.clear();
    bytes_.clear();
  }

  /// Adds a copy; an empty one is left out.
  void add(std::span<std::byte const> from, std::byte* to)
  {
    if (from.empty()) { return; }
    to_.push_back(to);
    from_.push_back(from.data());
    bytes_.push_back(from.size());
  }

  [[nodiscard]] cudaError_t submit(cudaStream_t stream, bool beside_kernels)
  {
    if (to_.empty()) { return cudaSuccess; }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags =
        beside_kernels ? cudaMemcpyFlagPreferOverlapWithCompute : cudaMemcpyFlagDefault;
    std::size_t first = 0;  // the copy from which on the attributes hold
    return cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), to_.size(), &attributes,
                                &first, 1, stream);
  }

 private:
  std::vector<void*> to_;
  std::vector<void const*> from_;
  std::vector<std::size_t> bytes_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_COPY_ENGINE_BATCH_HPP
