// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_GPU_KERNELS_HPP
#define BALLAST_EXAMPLES_GPU_KERNELS_HPP

#include "gpu_rows.hpp"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>

namespace cli {

/// Each queues its work on a stream, for rows 0 to rows - 1 (gain_gradient: for chunks of rows).
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows, gpu_rows::fill const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows, gpu_rows::rms_norm const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows,
                                   gpu_rows::rms_norm_gradient const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows, gpu_rows::gain_gradient const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows, gpu_rows::silu const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows, gpu_rows::silu_gradient const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows, gpu_rows::causal_softmax const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows,
                                   gpu_rows::causal_softmax_gradient const&);
[[nodiscard]] cudaError_t for_rows(cudaStream_t, std::size_t rows, gpu_rows::copy_heads const&);

/// Keeps the stream busy for a while, so that the host can queue what is timed before it begins: the
/// time between two short kernels is then the GPU's and not the host's.
[[nodiscard]] cudaError_t keep_busy(cudaStream_t, std::chrono::nanoseconds);

}  // namespace cli

#endif  // BALLAST_EXAMPLES_GPU_KERNELS_HPP
