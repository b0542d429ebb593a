// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_COPY_TILE_HPP
#define BALLAST_CUDA_DETAIL_COPY_COPY_TILE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/cuda/detail/copy/copy_piece.hpp>
#include <ballast/cuda/detail/copy/copy_units.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// Returns the number of tiles of a copy.
[[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t tiles_of(strided_copy const& copy,
                                                                 std::uint32_t tile_bytes)
{
  std::size_t const bytes = copy.bytes();
  return bytes / tile_bytes + (bytes % tile_bytes != 0 ? 1 : 0);
}

/// The bytes [begin, end) of a copy that are one tile.
///
/// Ensures     (1) the tiles are all bytes once, and each has one byte at least and
///                 tile_bytes + early at most
///             (2) tile i begins with byte i tile_bytes - early, the first with byte 0
struct tile_bounds {
  std::size_t begin;
  std::size_t end;

  /// Expects     early < tile_bytes.
  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr tile_bounds of(std::size_t bytes,
                                                                    std::size_t tile,
                                                                    std::uint32_t tile_bytes,
                                                                    std::uint32_t early)
  {
    std::size_t const next = (tile + 1) * tile_bytes;
    return {tile == 0 ? 0 : next - tile_bytes - early, next >= bytes ? bytes : next - early};
  }
};

/// Returns the same copy, as one run if it is contiguous.
[[nodiscard]] BALLAST_HOST_DEVICE constexpr strided_copy joined(strided_copy const& copy)
{
  return copy.is_contiguous() ? strided_copy::contiguous(copy.from, copy.to, copy.bytes()) : copy;
}

/// Makes one lane's part of one tile of a copy: the warp's lanes together make the tile, all tiles
/// the copy. If the list promises contiguous copies, no code for others is compiled.
///
/// Expects     a copy that is joined(); tile < tiles_of(copy, tile_bytes); lane < warp_lanes;
///             tile_bytes is a power of two from 64 to 2^30
/// Ensures     (1) every byte of the copy is written once, by one lane of one tile, and no other
///             (2) no byte is read that is not the copy's
template <copy_list List>
BALLAST_HOST_DEVICE void copy_tile(strided_copy const& copy, std::size_t tile,
                                   std::uint32_t tile_bytes, std::uint32_t lane)
{
  bool const is_one_run = contiguous_copy_list<List> || copy.rows == 1;
  // Tiles of one run begin on boundaries, so that only its ends are moved byte by byte.
  tile_bounds const all =
      tile_bounds::of(copy.bytes(), tile, tile_bytes, is_one_run ? behind_boundary(copy.to) : 0);
  if constexpr (contiguous_copy_list<List>) {
    copy_piece(copy.from, copy.to, copy.run, all.begin, all.end, lane);
  } else if (!is_one_run && copy.run < tile_bytes) {
    copy_units(copy, all.begin, all.end, lane);
  } else {
    std::size_t row = all.begin / copy.run;
    std::size_t begin = all.begin - row * copy.run;
    auto left = static_cast<std::uint32_t>(all.end - all.begin);
    while (left > 0) {  // once, or twice where a run ends in the tile
      std::size_t const end = copy.run - begin < left ? copy.run : begin + left;
      left -= static_cast<std::uint32_t>(end - begin);
      copy_piece(copy.from + row * copy.from_stride, copy.to + row * copy.to_stride, copy.run,
                 begin, end, lane);
      begin = 0;
      ++row;
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_COPY_TILE_HPP
