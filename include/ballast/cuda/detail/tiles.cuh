// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/detail/warp_copies.hpp>

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>

namespace ballast::inline v0::detail {

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

/// What run_copies() must know of a list beside its copies, in memory of the device. It depends on
/// the sizes of the copies alone: find_tiles() writes it once, and any list of copies of these sizes
/// is run with it as often as wished, one run at a time.
///
/// Shapes      tiles_to[count], of copies 0 to i; taken[2]: rounds of shares that blocks took, and
///             blocks that are done. Both are 0 between runs.
struct copy_tiles {
  std::uint64_t* tiles_to = nullptr;
  std::uint32_t* taken = nullptr;
  std::uint32_t count = 0;
  std::uint32_t tile_bytes = 4096;
  std::uint32_t begin = 0;  ///< copies before are not made

  [[nodiscard]] static copy_tiles in(temporary_storage& storage, std::uint32_t count,
                                     std::uint32_t tile_bytes = 4096)
  {
    auto* const tiles_to = storage.take<std::uint64_t>(count);
    return {tiles_to, storage.take<std::uint32_t>(2), count, tile_bytes};
  }

  /// Those of the first copies of the list; not to be run at the same time.
  [[nodiscard]] copy_tiles first(std::uint32_t copies) const
  {
    return {tiles_to, taken, copies, tile_bytes};
  }

  /// Those of all copies but the first; not to be run at the same time.
  [[nodiscard]] copy_tiles but_first(std::uint32_t copies) const
  {
    return {tiles_to, taken, count, tile_bytes, copies};
  }
};

inline constexpr unsigned copy_warps = 8;            // of a block
inline constexpr unsigned copy_resident_blocks = 4;  // on a multiprocessor, by their registers
inline constexpr unsigned copy_blocks_beside = 1;    // that leave room for a kernel of messages

/// Makes all copies of a list, and then what else the list makes. Blocks take one round of shares
/// after another, a share for each warp: so copies wait for no block that has not begun, because
/// another kernel has its multiprocessor.
template <copy_list List>
__global__ void __launch_bounds__(copy_warps* warp_lanes, copy_resident_blocks)
    make_copies(__grid_constant__ List const list, __grid_constant__ copy_tiles const tiles)
{
  __shared__ std::uint32_t round;
  tiled_list<List> const copies{list, tiles.tiles_to, tiles.count, tiles.tile_bytes, tiles.begin};
  std::uint64_t const shares = copies.shares(std::uint64_t{gridDim.x} * copy_warps);
  while (true) {
    if (threadIdx.x == 0) { round = atomicAdd(&tiles.taken[0], 1); }
    __syncthreads();
    std::uint64_t const first = std::uint64_t{round} * copy_warps;
    if (first >= shares) { break; }
    std::uint64_t const share = first + threadIdx.x / warp_lanes;
    if (share < shares) { copy_share(copies, share, shares, threadIdx.x % warp_lanes); }
    __syncthreads();  // before the next round is written
  }
  if constexpr (makes_more<List>) {
    list.make_rest(blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
  }
  if (threadIdx.x == 0) {
    __threadfence();
    if (atomicAdd(&tiles.taken[1], 1) == gridDim.x - 1) {  // all have taken their last round
      tiles.taken[0] = 0;
      tiles.taken[1] = 0;
    }
  }
}

/// The storage of scans that run one after another or, without memory, the most that one asks for.
struct scan_storage {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;

  /// Calls scan(memory, bytes), one of CUB's.
  template <class Scan>
  [[nodiscard]] cudaError_t operator()(Scan const& scan)
  {
    std::size_t needed = bytes;
    auto const error = scan(memory, needed);
    bytes = std::max(bytes, needed);
    return error;
  }
};

/// Queues what needs storage for scans, which is taken behind all else: queue(scan_storage&), which
/// only scans where there is no memory.
///
/// In, out     without memory only `bytes` is written, as CUB does
/// Errors      those of `queue`; cudaErrorInvalidValue if there are too few bytes.
template <class Queue>
[[nodiscard]] cudaError_t queue_scans(temporary_storage& storage, std::size_t& bytes,
                                      Queue const& queue)
{
  scan_storage scans;
  if (auto const error = queue(scans); error != cudaSuccess) { return error; }
  scans.memory = storage.take<std::byte>(scans.bytes);
  if (storage.is_only_asking()) {
    bytes = storage.bytes();
    return cudaSuccess;
  }
  return bytes < storage.bytes() ? cudaErrorInvalidValue : queue(scans);
}

/// Queues what writes `tiles` for a list of tiles.count copies.
template <copy_list List>
[[nodiscard]] cudaError_t find_tiles(scan_storage& scans, List const& list, copy_tiles const& tiles,
                                     cudaStream_t stream)
{
  thrust::transform_iterator const counts(thrust::counting_iterator<std::uint32_t>(0),
                                          tile_counts<List>{list, tiles.tile_bytes});
  if (scans.memory != nullptr) {
    if (auto const error = cudaMemsetAsync(tiles.taken, 0, 2 * sizeof(std::uint32_t), stream);
        error != cudaSuccess) {
      return error;
    }
    if (tiles.count == 0) { return cudaSuccess; }
  }
  return scans([&](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::InclusiveSum(memory, bytes, counts, tiles.tiles_to, tiles.count,
                                         stream);
  });
}

/// Queues the copies of a list, by one kernel. `blocks` is per multiprocessor.
template <copy_list List>
[[nodiscard]] cudaError_t run_copies(List const& list, copy_tiles const& tiles, cudaStream_t stream,
                                     std::uint32_t blocks = copy_resident_blocks)
{
  if (tiles.count == tiles.begin) { return cudaSuccess; }
  int multiprocessors = 0;
  if (auto const error = count_multiprocessors(multiprocessors); error != cudaSuccess) {
    return error;
  }
  return launch(make_copies<List>, static_cast<std::size_t>(multiprocessors) * blocks,
                copy_warps * warp_lanes, stream, list, tiles);
}

/// Queues a part of the copies of a list. Those of what is kept run beside the kernel of messages.
template <unpacking_list List>
[[nodiscard]] cudaError_t run_part(List const& list, copy_tiles const& tiles, unpack_part part,
                                   cudaStream_t stream)
{
  switch (part) {
    case unpack_part::messages: return run_copies(list, tiles.first(list.from_messages()), stream);
    case unpack_part::kept:
      return run_copies(list, tiles.but_first(list.from_messages()), stream, copy_blocks_beside);
    case unpack_part::all: break;
  }
  return run_copies(list, tiles, stream);
}

}  // namespace ballast::inline v0::detail
