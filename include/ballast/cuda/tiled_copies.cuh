// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_TILED_COPIES_CUH
#define BALLAST_CUDA_TILED_COPIES_CUH

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/cuda/detail/copy/copy_share.hpp>
#include <ballast/cuda/detail/copy/copy_tile.hpp>
#include <ballast/cuda/detail/copy/warp.hpp>
#include <ballast/cuda/detail/device_attribute.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

namespace detail {

/// Returns the number of tiles of the i-th copy of a list.
template <copy_list List>
struct tile_counts {
  List list;
  std::uint32_t tile_bytes;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint64_t operator()(std::uint32_t index) const
  {
    return tiles_of(list(index), tile_bytes);
  }
};

inline constexpr unsigned copy_warps = 8;            // of a block
inline constexpr unsigned copy_resident_blocks = 4;  // on a multiprocessor, by their registers

/// Makes all copies of a list with all warps of the launch.
template <copy_list List>
__global__ void __launch_bounds__(copy_warps* warp_lanes, copy_resident_blocks)
    make_copies(__grid_constant__ List const list, std::uint64_t const* tiles_to,
                std::uint32_t count, std::uint32_t tile_bytes)
{
  std::uint64_t const warp = std::uint64_t{blockIdx.x} * copy_warps + threadIdx.x / warp_lanes;
  copy_share(tiled_list<List>{list, tiles_to, count, tile_bytes}, warp,
             std::uint64_t{gridDim.x} * copy_warps, threadIdx.x % warp_lanes);
}

}  // namespace detail

/// Cuts all copies of a list into tiles of one size and gives every warp an equal number of them,
/// so that the work of a warp does not depend on how long each copy is.
///
/// Expects     tile_bytes is a power of two from 64 to 2^30; blocks_per_multiprocessor >= 1.
struct tiled_copies {
  std::uint32_t tile_bytes = 4096;
  std::uint32_t blocks_per_multiprocessor = 4;

  /// copy_batch by this policy.
  template <copy_list List>
  [[nodiscard]] cudaError_t operator()(void* temporary, std::size_t& temporary_bytes,
                                       List const& list, std::uint32_t count,
                                       cudaStream_t stream) const
  {
    BALLAST_EXPECTS(
        std::has_single_bit(tile_bytes) && tile_bytes >= 64 && tile_bytes <= std::uint32_t{1} << 30,
        "tile_bytes is ", tile_bytes, ", which is not a power of two from 64 to 2^30");
    BALLAST_EXPECTS(blocks_per_multiprocessor >= 1, "blocks_per_multiprocessor is ",
                    blocks_per_multiprocessor, ", and the least is 1");
    detail::temporary_storage storage(temporary);
    auto* const tiles_to = storage.take<std::uint64_t>(count);
    thrust::transform_iterator const tiles(thrust::counting_iterator<std::uint32_t>(0),
                                           detail::tile_counts<List>{list, tile_bytes});
    std::size_t scan_bytes = 0;
    if (auto const error =
            cub::DeviceScan::InclusiveSum(nullptr, scan_bytes, tiles, tiles_to, count, stream);
        error != cudaSuccess) {
      return error;
    }
    auto* const scan = storage.take<std::byte>(scan_bytes);
    if (storage.is_only_asking()) {
      temporary_bytes = storage.bytes();
      return cudaSuccess;
    }
    if (temporary_bytes < storage.bytes()) { return cudaErrorInvalidValue; }
    if (count == 0) { return cudaSuccess; }
    if (auto const error =
            cub::DeviceScan::InclusiveSum(scan, scan_bytes, tiles, tiles_to, count, stream);
        error != cudaSuccess) {
      return error;
    }
    int multiprocessors = 0;
    if (auto const error =
            detail::device_attribute(multiprocessors, cudaDevAttrMultiProcessorCount);
        error != cudaSuccess) {
      return error;
    }
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(static_cast<unsigned>(multiprocessors) * blocks_per_multiprocessor);
    launch.blockDim = dim3(detail::copy_warps * detail::warp_lanes);
    launch.stream = stream;
    return cudaLaunchKernelEx(&launch, detail::make_copies<List>, list,
                              static_cast<std::uint64_t const*>(tiles_to), count, tile_bytes);
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_TILED_COPIES_CUH
