// SPDX-License-Identifier: Apache-2.0
// Every kernel that copies, prepares copies or adds up what was copied, for its usual arguments: what
// cmake/kernel_report.sh reports on.
#include <ballast/core.hpp>
#include <ballast/cuda/copy_batch.cuh>
#include <ballast/cuda/detail/add_pieces.cuh>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/prepared_heads.cuh>
#include <ballast/cuda/prepared_route.cuh>
#include <ballast/cuda/repeat_rows.cuh>
#include <ballast/cuda/staged.hpp>
#include <ballast/cuda/tables.hpp>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace kernels {

using ballast::strided_copy;

struct contiguous_copies {
  static constexpr bool contiguous = true;

  std::byte const* from;
  std::byte* to;
  std::size_t const* offsets;

  BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    std::size_t const begin = offsets[index];
    return strided_copy::contiguous(from + begin, to + begin, offsets[index + 1] - begin);
  }
};

struct strided_copies {
  strided_copy const* copies;

  BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const { return copies[index]; }
};

}  // namespace kernels

cudaError_t queue_all_kernels(
    void* temporary, std::size_t& bytes, std::byte* messages,
    kernels::contiguous_copies const& contiguous, kernels::strided_copies const& strided,
    ballast::chunks_to_ranks const& gathered, ballast::ranks_to_chunks const& scattered,
    ballast::prepared_route const& route, ballast::device_rows const& rows,
    ballast::prepared_heads const& exchange, ballast::device_heads const& heads,
    std::span<float> sum, std::span<__nv_bfloat16> short_sum,
    ballast::staged<ballast::sequence_rows> const& sequences, cudaStream_t stream)
{
  for (cudaError_t const error : {
           ballast::copy_batch(temporary, bytes, contiguous, 1, stream),
           ballast::copy_batch(temporary, bytes, strided, 1, stream),
           ballast::copy_batch(temporary, bytes, gathered, 1, stream),
           ballast::copy_batch(temporary, bytes, scattered, 1, stream),
           route.prepare(stream),
           route.pack(true, rows, messages, stream),
           route.unpack(true, rows, messages, stream),
           exchange.prepare(stream),
           exchange.pack(true, heads, messages, stream),
           exchange.unpack(true, heads, messages, stream),
           exchange.pack(false, heads, messages, stream),
           exchange.unpack(false, heads, messages, stream),
           ballast::detail::add_pieces<float>(sum, sum, stream),
           ballast::detail::add_pieces<__nv_bfloat16>(short_sum, short_sum, stream),
           ballast::repeat_rows(sequences, short_sum.data(), short_sum.data(), 1, stream),
           ballast::sum_rows(sequences, short_sum.data(), short_sum.data(), 1, stream),
       }) {
    if (error != cudaSuccess) { return error; }
  }
  return cudaSuccess;
}
