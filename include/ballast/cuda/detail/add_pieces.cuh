// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime.h>

namespace ballast::inline v0::detail {

template <class T>
__global__ void __launch_bounds__(256) add_all_pieces(__grid_constant__ piece_sums<T> const sums)
{
  sums.add(std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, std::size_t{gridDim.x} * blockDim.x);
}

/// Queues the sum of equal pieces, which lie one after the other: what is left of a reduce-scatter
/// when every rank's piece is there.
///
/// Shapes      pieces[ranks x sum.size()]; sum may be one of the pieces.
/// Ensures     it takes at most `blocks_per_multiprocessor` blocks of each multiprocessor, so that a
///             matrix product beside it keeps the rest
/// Errors      CUDA's own.
template <class T>
[[nodiscard]] cudaError_t add_pieces(std::span<T const> pieces, std::span<T> sum,
                                     cudaStream_t stream,
                                     std::uint32_t blocks_per_multiprocessor = 2)
{
  nvtx_range const range("ballast::add_pieces");
  BALLAST_EXPECTS(sum.empty() ? pieces.empty() : pieces.size() % sum.size() == 0,
                  "the pieces have ", pieces.size(), " elements, and the sum ", sum.size());
  if (sum.empty() || pieces.empty()) { return cudaSuccess; }
  int multiprocessors = 0;
  if (auto const code = count_multiprocessors(multiprocessors); code != cudaSuccess) {
    return code;
  }
  constexpr unsigned threads = 256;
  std::size_t const needed = (sum.size() + threads - 1) / threads;
  std::size_t const most = static_cast<std::size_t>(multiprocessors) * blocks_per_multiprocessor;
  return launch(add_all_pieces<T>, std::min(needed, most), threads, stream,
                piece_sums<T>{pieces.data(), sum.data(),
                              static_cast<std::uint32_t>(pieces.size() / sum.size()), sum.size()});
}

}  // namespace ballast::inline v0::detail
