// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>

namespace cli {

/// Queues a kind of work of gpu_rows.hpp on a stream, for rows 0 to rows - 1 (gain_gradient: for
/// chunks of rows). Defined for those kinds in gpu_kernels.cu.
template <class Row>
[[nodiscard]] cudaError_t for_rows(cudaStream_t stream, std::size_t rows, Row const& row);

/// Keeps the stream busy for a while, so that the host can queue what is timed before it begins:
/// the time between two short kernels is then the GPU's and not the host's.
[[nodiscard]] cudaError_t keep_busy(cudaStream_t, std::chrono::nanoseconds);

}  // namespace cli
