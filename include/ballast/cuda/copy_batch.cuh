// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_COPY_BATCH_CUH
#define BALLAST_CUDA_COPY_BATCH_CUH

#include <ballast/cuda/strided_copy.hpp>
#include <ballast/cuda/tuned_copies.cuh>
#include <ballast/gpu/detail/nvtx_range.hpp>

#include <cuda_runtime.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

/// Makes the copies of a list on a stream: tiled_copies, cub_copies, tuned_copies.
template <class Policy, class List>
concept copy_policy =
    copy_list<List> && requires(Policy const& policy, void* temporary, std::size_t& temporary_bytes,
                                List const& list, std::uint32_t count, cudaStream_t stream) {
      { policy(temporary, temporary_bytes, list, count, stream) } -> std::same_as<cudaError_t>;
    };

/// Makes copies list(0) ... list(count - 1), in any order and at once. What the list reads on the
/// device it reads when the stream has come so far: `count` is a bound, copies may be empty, and a
/// captured graph copies what the list says at each replay.
///
/// In, out     without memory (temporary == nullptr) only temporary_bytes is written, as CUB does
/// Expects     temporary is memory of the stream's device, which is the current one, of as many
///             bytes as the same call without it said
/// Errors      CUDA's own; cudaErrorInvalidValue where temporary_bytes do not suffice.
template <copy_list List, copy_policy<List> Policy>
[[nodiscard]] cudaError_t copy_batch(void* temporary, std::size_t& temporary_bytes,
                                     List const& list, std::uint32_t count, Policy const& policy,
                                     cudaStream_t stream)
{
  detail::nvtx_range const range("ballast::copy_batch");
  return policy(temporary, temporary_bytes, list, count, stream);
}

/// The same by tuned_copies.
template <copy_list List>
[[nodiscard]] cudaError_t copy_batch(void* temporary, std::size_t& temporary_bytes,
                                     List const& list, std::uint32_t count, cudaStream_t stream)
{
  return copy_batch(temporary, temporary_bytes, list, count, tuned_copies{}, stream);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_COPY_BATCH_CUH
