// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP
#define BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP

#include <ballast/core/config.hpp>
#include <ballast/cuda/detail/copy/copy_tile.hpp>
#include <ballast/cuda/detail/copy/warp.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <cstdint>

namespace ballast::inline v0::detail {

/// A warp's search among ascending numbers [begin, end) for the first that is above a value. In
/// each round every lane reads the number at its probe, the lanes vote whether theirs is above, and
/// the range narrows to the numbers of the first lane that voted yes. When the search is done lane
/// i's probe is begin + i, so one more vote finds the number.
///
/// Expects     begin < end.
/// Ensures     (1) if number end - 1 is above the value, the first that is stays in the range
///             (2) each round leaves ceil(1 / 32) of the range
/// Source      B. Schlegel, R. Gemulla, W. Lehner, "k-Ary Search on Modern Processors", DaMoN 2009.
struct tile_search {
  std::uint32_t begin;
  std::uint32_t end;

  /// The first of the numbers [begin, count), as many as one vote decides.
  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr tile_search near(std::uint32_t begin,
                                                                      std::uint32_t count)
  {
    return {begin, count - begin < warp_lanes ? count : begin + warp_lanes};
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr bool is_done() const
  {
    return end - begin <= warp_lanes;
  }

  /// Returns the last of a lane's numbers, or of the range if the lane has none.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t probe(std::uint32_t lane) const
  {
    std::uint64_t const after = begin + (std::uint64_t{lane} + 1) * numbers_per_lane();
    return after < end ? static_cast<std::uint32_t>(after) - 1 : end - 1;
  }

  /// Expects     lane is the first whose number is above the value.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tile_search narrowed(std::uint32_t lane) const
  {
    return {begin + lane * numbers_per_lane(), probe(lane) + 1};
  }

  /// Returns the votes of all lanes: bit i is lane i's. On the device lane `lane` takes part in a
  /// vote of the warp; on the host the function computes all votes.
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t votes(std::uint64_t const* numbers,
                                                        std::uint64_t value,
                                                        [[maybe_unused]] std::uint32_t lane) const
  {
#ifdef __CUDA_ARCH__
    return __ballot_sync(0xffffffff, numbers[probe(lane)] > value);
#else
    std::uint32_t yes = 0;
    for (std::uint32_t voter = 0; voter < warp_lanes; ++voter) {
      yes |= std::uint32_t{numbers[probe(voter)] > value} << voter;
    }
    return yes;
#endif
  }

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t numbers_per_lane() const
  {
    return (end - begin - 1) / warp_lanes + 1;
  }
};

/// A list cut into tiles: `tiles_to[i]` is the number of tiles of copies 0 to i.
template <copy_list List>
struct tiled_list {
  List const& list;
  std::uint64_t const* tiles_to;
  std::uint32_t count;
  std::uint32_t tile_bytes;

  /// Returns into how many shares the tiles are cut for `warps` warps: four for each, unless that
  /// makes a share of less than 32 tiles.
  ///
  /// Expects     count >= 1.
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint64_t shares(std::uint64_t warps) const
  {
    std::uint64_t const tiles = tiles_to[count - 1];
    if (tiles < warps) { return tiles; }
    std::uint64_t const of_32 = tiles / 32;
    return of_32 < warps ? warps : of_32 < 4 * warps ? of_32 : 4 * warps;
  }
};

/// Makes one lane's part of one of the equal shares of all tiles: of t tiles and s shares, share i
/// is tiles floor(i t / s) to floor((i + 1) t / s) - 1, wherever copies begin and end.
///
/// Expects     copies.count >= 1; share < shares; t / s < 2^32; all lanes of the warp call it.
/// Complexity  O(t / s + log count), and O(log count) for each run of more than 32 empty copies.
template <copy_list List>
BALLAST_HOST_DEVICE void copy_share(tiled_list<List> const& copies, std::uint64_t share,
                                    std::uint64_t shares, std::uint32_t lane)
{
  std::uint64_t const tiles = copies.tiles_to[copies.count - 1];
  std::uint64_t tile = share * tiles / shares;
  auto left = static_cast<std::uint32_t>((share + 1) * tiles / shares - tile);
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
