// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_TUNED_COPIES_CUH
#define BALLAST_CUDA_TUNED_COPIES_CUH

#include <ballast/cuda/copy_tuning.hpp>
#include <ballast/cuda/cub_copies.cuh>
#include <ballast/cuda/detail/device_attribute.hpp>
#include <ballast/cuda/strided_copy.hpp>
#include <ballast/cuda/tiled_copies.cuh>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

/// Takes from a table what was measured to be the fastest: tiled_copies or cub_copies.
struct tuned_copies {
  std::size_t mean_bytes =
      0;  ///< of a copy, as far as the host knows; the lengths are the device's

  /// copy_batch by this policy.
  template <copy_list List>
  [[nodiscard]] cudaError_t operator()(void* temporary, std::size_t& temporary_bytes,
                                       List const& list, std::uint32_t count,
                                       cudaStream_t stream) const
  {
    int major = 0;
    int minor = 0;
    if (auto const error = detail::device_attribute(major, cudaDevAttrComputeCapabilityMajor);
        error != cudaSuccess) {
      return error;
    }
    if (auto const error = detail::device_attribute(minor, cudaDevAttrComputeCapabilityMinor);
        error != cudaSuccess) {
      return error;
    }
    copy_tuning const tuning = tuning_of(measured_copies, 10 * major + minor, mean_bytes);
    if constexpr (contiguous_copy_list<List> && measures_cub()) {
      if (tuning.by_cub) { return cub_copies{}(temporary, temporary_bytes, list, count, stream); }
    }
    tiled_copies const tiled{tuning.tile_bytes, tuning.blocks_per_multiprocessor};
    return tiled(temporary, temporary_bytes, list, count, stream);
  }

 private:
  /// Otherwise its kernels need not be compiled.
  [[nodiscard]] static constexpr bool measures_cub()
  {
    for (copy_tuning const& row : measured_copies) {
      if (row.by_cub) { return true; }
    }
    return false;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_TUNED_COPIES_CUH
