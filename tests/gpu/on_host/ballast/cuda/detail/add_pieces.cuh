// SPDX-License-Identifier: Apache-2.0
// Stands for <ballast/cuda/detail/add_pieces.cuh>, which nvcc alone compiles: the threads of its kernel,
// one after the other. Tests find it first: its folder lies before include/.
#pragma once

#include "../../../../../support/queued_work.hpp"

#include <cuda_runtime_api.h>
#include <ballast/cuda/detail/row_copies.hpp>

namespace ballast::inline v0::detail {

template <class T>
cudaError_t add_pieces(std::span<T const> pieces, std::span<T> sum, cudaStream_t stream)
{
  if (sum.empty()) { return cudaSuccess; }
  piece_sums<T> const sums{pieces.data(), sum.data(),
                           static_cast<std::uint32_t>(pieces.size() / sum.size()), sum.size()};
  return ballast_test::launch(stream, [sums] {
    constexpr std::size_t threads = 5;
    for (std::size_t thread = 0; thread < threads; ++thread) { sums.add(thread, threads); }
  });
}

}  // namespace ballast::inline v0::detail
