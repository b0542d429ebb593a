// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/staged.hpp>

#include <cuda_runtime.h>

namespace ballast::inline v0 {

namespace detail {

template <class Rows>
__global__ void __launch_bounds__(256) run_rows(__grid_constant__ Rows const rows)
{
  rows.run(std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, std::size_t{gridDim.x} * blockDim.x);
}

template <class Rows>
[[nodiscard]] cudaError_t queue_rows(Rows const& rows, std::size_t most_elements,
                                     cudaStream_t stream)
{
  if (most_elements == 0) { return cudaSuccess; }
  constexpr unsigned threads = 256;
  constexpr std::size_t most_blocks = 4096;  // each thread then takes several elements
  std::size_t const blocks = (most_elements + threads - 1) / threads;
  return launch(run_rows<Rows>, std::min(blocks, most_blocks), threads, stream, rows);
}

}  // namespace detail

/// Queues what repeat_rows() of the host does: each sequence's row as often as it has copies, for
/// the copies that were staged when the stream reached their upload.
///
///     repeat_rows(there, rows, repeated, width, stream);                     // forward
///     route(comm, ready, memory, rows_of(repeated, received, width));
///     reverse_route(comm, ready, memory, rows_of(dreceived, drepeated, width));  // backward
///     sum_rows(there, drepeated, drows, width, stream);
///
/// Shapes      rows[sequences][width], repeated[sum of copies][width].
/// Expects     the stream's device is the current one, and reaches the arrays, which do not overlap.
/// Ensures     one kernel, which a graph can hold; nothing is allocated, and nothing waits
/// Errors      CUDA's own.
/// Complexity  reads each row once, and writes each copy once.
template <class T>
[[nodiscard]] cudaError_t repeat_rows(staged<sequence_rows> const& there, T const* rows,
                                      T* repeated, std::size_t width, cudaStream_t stream)
{
  nvtx_range const range("ballast::repeat_rows");
  return detail::queue_rows(detail::repeated_rows<T>{there.tables(), rows, repeated, width},
                            there.bound() * width, stream);
}

/// Queues what sum_rows() of the host does: the gradient of repeat_rows(). T is float, double,
/// __half, __nv_bfloat16 or an integer of 32 bits or more.
///
/// Ensures     copies are added in the order of the bag's GPUs, those of 16 bits in fp32 and rounded
///             once: the same bits in every run, with any flags of nvcc
/// The rest is as for repeat_rows.
template <class T>
[[nodiscard]] cudaError_t sum_rows(staged<sequence_rows> const& there, T const* repeated, T* rows,
                                   std::size_t width, cudaStream_t stream)
{
  nvtx_range const range("ballast::sum_rows");
  return detail::queue_rows(detail::summed_rows<T>{there.tables(), repeated, rows, width},
                            there.bound() * width, stream);
}

}  // namespace ballast::inline v0
