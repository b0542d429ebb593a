// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP
#define BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP

#include <ballast/core/config.hpp>
#include <ballast/cuda/detail/copy/copy_tile.hpp>
#include <ballast/cuda/detail/copy/tile_search.hpp>
#include <ballast/cuda/detail/copy/warp.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <cstdint>

namespace ballast::inline v0::detail {

/// A list cut into tiles: `tiles_to[i]` is the number of tiles of copies 0 to i.
template <copy_list List>
struct tiled_list {
  List const& list;
  std::uint64_t const* tiles_to;
  std::uint32_t count;
  std::uint32_t tile_bytes;
};

/// Makes one lane's part of one warp's share of all tiles: of t tiles and w warps, warp i makes
/// tiles floor(i t / w) to floor((i + 1) t / w) - 1, wherever copies begin and end.
///
/// Expects     copies.count >= 1; warp < warps; t / w < 2^32; all lanes of the warp call it.
/// Complexity  O(t / w + log count), and O(log count) for each run of more than 32 empty copies.
template <copy_list List>
BALLAST_HOST_DEVICE void copy_share(tiled_list<List> const& copies, std::uint64_t warp,
                                    std::uint64_t warps, std::uint32_t lane)
{
  std::uint64_t const tiles = copies.tiles_to[copies.count - 1];
  std::uint64_t tile = warp * tiles / warps;
  auto left = static_cast<std::uint32_t>((warp + 1) * tiles / warps - tile);
  tile_search search{0, copies.count};
  while (left > 0) {
    std::uint32_t const votes = search.votes(copies.tiles_to, tile, lane);
    if (votes == 0) {  // more than 32 copies have no tile
      search = {search.end, copies.count};
      continue;
    }
    if (!search.is_done()) {
      search = search.narrowed(first_lane(votes));
      continue;
    }
    std::uint32_t const index = search.probe(first_lane(votes));
    std::uint64_t in_copy = tile - (index == 0 ? 0 : copies.tiles_to[index - 1]);
    std::uint64_t const ahead = copies.tiles_to[index] - tile;
    std::uint32_t here = ahead < left ? static_cast<std::uint32_t>(ahead) : left;
    tile += here;
    left -= here;
    search = tile_search::near(index + 1, copies.count);
    strided_copy const copy = joined(copies.list(index));
    for (; here > 0; --here) { copy_tile<List>(copy, in_copy++, copies.tile_bytes, lane); }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP
