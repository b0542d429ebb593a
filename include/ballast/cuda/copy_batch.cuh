// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_COPY_BATCH_CUH
#define BALLAST_CUDA_COPY_BATCH_CUH

#include <ballast/cuda/strided_copy.hpp>
#include <ballast/cuda/tiled_copies.cuh>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

/// Queues the copies of a list on a stream: tiled_copies, or a way of your own.
template <class Policy, class List>
concept copy_policy =
    copy_list<List> && requires(Policy const& policy, void* temporary, std::size_t& temporary_bytes,
                                List const& list, std::uint32_t count, cudaStream_t stream) {
      { policy(temporary, temporary_bytes, list, count, stream) } -> std::same_as<cudaError_t>;
    };

/// Queues copies list(0) ... list(count - 1) on a stream; they are made in any order.
///
/// The list is evaluated on the device when the stream reaches the copies. So `count` may be a
/// bound: copies beyond what there is to do are empty, and a captured graph makes, at each replay,
/// the copies that the list gives then.
///
/// In, out     without memory (temporary == nullptr) only temporary_bytes is written, as CUB does
/// Expects     the stream's device is the current one; temporary is memory of that device, of as
///             many bytes as the same call without memory has written
/// Errors      CUDA's own; cudaErrorInvalidValue if temporary_bytes is too small.
template <copy_list List, copy_policy<List> Policy>
[[nodiscard]] cudaError_t copy_batch(void* temporary, std::size_t& temporary_bytes,
                                     List const& list, std::uint32_t count, Policy const& policy,
                                     cudaStream_t stream)
{
  nvtx_range const range("ballast::copy_batch");
  return policy(temporary, temporary_bytes, list, count, stream);
}

/// The same by tiled_copies.
template <copy_list List>
[[nodiscard]] cudaError_t copy_batch(void* temporary, std::size_t& temporary_bytes,
                                     List const& list, std::uint32_t count, cudaStream_t stream)
{
  return copy_batch(temporary, temporary_bytes, list, count, tiled_copies{}, stream);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_COPY_BATCH_CUH
