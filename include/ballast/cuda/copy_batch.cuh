// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/tiles.cuh>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime.h>

namespace ballast::inline v0 {

/// How all copies of a list are cut into tiles of one size and these into equal shares, which warps
/// take one after another: the work of a warp does not depend on how long each copy is.
///
/// Expects     tile_bytes is a power of two from 64 to 2^30; blocks_per_multiprocessor >= 1.
struct tiled_copies {
  std::uint32_t tile_bytes = 4096;
  std::uint32_t blocks_per_multiprocessor = 4;
};

/// Queues copies list(0) ... list(count - 1) on a stream; they are made in any order.
///
/// The list is evaluated on the device when the stream reaches the copies. So `count` may be a
/// bound: copies beyond what there is to do are empty, and a captured graph makes, at each replay,
/// the copies that the list gives then.
///
/// In, out     without memory (temporary == nullptr) only temporary_bytes is written, as CUB does
/// Expects     the stream's device is the current one; temporary is memory of that device, of as
///             many bytes as the same call without memory has written
/// Errors      CUDA's own; cudaErrorInvalidValue if temporary_bytes is too small.
template <copy_list List>
[[nodiscard]] cudaError_t copy_batch(void* temporary, std::size_t& temporary_bytes,
                                     List const& list, std::uint32_t count, cudaStream_t stream,
                                     tiled_copies const& how = {})
{
  nvtx_range const range("ballast::copy_batch");
  auto const [tile_bytes, blocks] = how;
  BALLAST_EXPECTS(
      std::has_single_bit(tile_bytes) && tile_bytes >= 64 && tile_bytes <= std::uint32_t{1} << 30,
      "tile_bytes is ", tile_bytes, ", which is not a power of two from 64 to 2^30");
  BALLAST_EXPECTS(blocks >= 1, "blocks_per_multiprocessor is ", blocks, ", and the least is 1");
  detail::temporary_storage storage(temporary);
  auto const tiles = detail::copy_tiles::in(storage, count, tile_bytes);
  auto const found = detail::queue_scans(
      storage, temporary_bytes,
      [&](detail::scan_storage& scans) { return detail::find_tiles(scans, list, tiles, stream); });
  if (found != cudaSuccess || storage.is_only_asking()) { return found; }
  return detail::run_copies(list, tiles, stream, blocks);
}

}  // namespace ballast::inline v0
