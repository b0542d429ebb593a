// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP
#define BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/cuda/detail/copy/copy_piece.hpp>
#include <ballast/cuda/detail/copy/copy_tile.hpp>
#include <ballast/cuda/detail/copy/warp.hpp>
#include <ballast/cuda/detail/copy/wide_access.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <cstddef>
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

  /// Returns which lanes' numbers are above a value.
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t votes(std::uint64_t const* numbers,
                                                        std::uint64_t value,
                                                        std::uint32_t lane) const
  {
    return votes_of(lane, [&](std::uint32_t voter) { return numbers[probe(voter)] > value; });
  }

  /// Returns the first of the numbers [begin, count) that is above a value.
  ///
  /// Expects     begin < count; the last is above it; all lanes of the warp call it.
  /// Complexity  one vote if it is among the first 32, else O(log(count - begin)).
  [[nodiscard]] BALLAST_HOST_DEVICE static std::uint32_t first_above(std::uint64_t const* numbers,
                                                                     std::uint64_t value,
                                                                     std::uint32_t begin,
                                                                     std::uint32_t count,
                                                                     std::uint32_t lane)
  {
    tile_search search = near(begin, count);
    while (true) {
      std::uint32_t const above = search.votes(numbers, value, lane);
      if (above == 0) {
        search = {search.end, count};
      } else if (search.is_done()) {
        return search.probe(first_lane(above));
      } else {
        search = search.narrowed(first_lane(above));
      }
    }
  }

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t numbers_per_lane() const
  {
    return (end - begin - 1) / warp_lanes + 1;
  }
};

/// A list cut into tiles: `tiles_to[i]` is the number of tiles of copies 0 to i. Copies `first` to
/// count - 1 are made.
template <copy_list List>
struct tiled_list {
  List const& list;
  std::uint64_t const* tiles_to;
  std::uint32_t count;
  std::uint32_t tile_bytes;
  std::uint32_t first = 0;

  /// Returns the number of tiles of the copies that are not made.
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint64_t tiles_before() const
  {
    return first == 0 ? 0 : tiles_to[first - 1];
  }

  /// Returns into how many shares the tiles are cut for `warps` warps: four for each, unless that
  /// makes a share of less than 32 tiles.
  ///
  /// Expects     count >= 1.
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint64_t shares(std::uint64_t warps) const
  {
    std::uint64_t const tiles = tiles_to[count - 1] - tiles_before();
    if (tiles < warps) { return tiles; }
    std::uint64_t const of_32 = tiles / 32;
    return of_32 < warps ? warps : of_32 < 4 * warps ? of_32 : 4 * warps;
  }
};

/// Tiles [begin, end) of a list.
struct tile_range {
  std::uint64_t begin;
  std::uint64_t end;

  /// The part of a range that is in a copy with `tiles` tiles, of which the last is tile to - 1;
  /// it may be empty.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr tile_range in_copy(std::uint64_t to,
                                                                 std::uint64_t tiles) const
  {
    return {begin < to - tiles ? to - tiles : begin, end < to ? end : to};
  }
};

/// The next 32 copies of a list. Each lane looks up one, all at the same time, and asks for its
/// first bytes: so the latency of what the list reads is that of 32 copies.
template <contiguous_copy_list List>
class copy_window {
 public:
  BALLAST_HOST_DEVICE copy_window(tiled_list<List> const& copies, std::uint32_t first,
                                  std::uint32_t lane)
      : copies_(copies), first_(first)
  {
#ifdef __CUDA_ARCH__
    own_ = looked_up(lane);
#endif
    if (own(lane).run > 0) { prefetch(own(lane).from); }
  }

  /// Makes one lane's part of the tiles of a range that are in these copies.
  BALLAST_HOST_DEVICE void make(tile_range const& range, std::uint32_t lane) const
  {
    std::uint32_t const all = votes_of(lane, [&](std::uint32_t place) {
      tile_range const part = tiles_of_place(range, place);
      return part.begin < part.end;
    });
    std::uint32_t const small = all & votes_of(lane, [&](std::uint32_t place) {
                                  std::size_t const bytes = own(place).run;
                                  return bytes <= small_bytes && bytes <= copies_.tile_bytes;
                                });
    make_small(small, lane);
    for (std::uint32_t left = all & ~small; left != 0; left &= left - 1) {
      std::uint32_t const place = first_lane(left);
      strided_copy const copy = of(place);
      std::uint64_t const to = copies_.tiles_to[first_ + place];
      std::uint64_t const before = to - tiles_of(copy, copies_.tile_bytes);
      tile_range const part = range.in_copy(to, to - before);
      for (std::uint64_t tile = part.begin; tile < part.end; ++tile) {
        copy_tile<List>(copy, tile - before, copies_.tile_bytes, lane);
      }
    }
  }

 private:
  static constexpr std::uint32_t few_lanes = 8;
  static constexpr std::size_t small_bytes = std::size_t{few_lanes} * 16 * 4;  // four loads a lane

  /// Makes copies of one tile and few bytes, four at a time.
  BALLAST_HOST_DEVICE void make_small(std::uint32_t left, std::uint32_t lane) const
  {
    while (left != 0) {
      std::uint32_t own_place = warp_lanes;  // of the group of lanes; none
      for (std::uint32_t group = 0; group < warp_lanes / few_lanes && left != 0; ++group) {
        if (group == lane / few_lanes) { own_place = first_lane(left); }
        left &= left - 1;
      }
      strided_copy const copy = of(own_place % warp_lanes);
      if (own_place < warp_lanes) {
        copy_piece<few_lanes>(copy.from, copy.to, copy.run, 0, copy.run, lane % few_lanes);
      }
    }
  }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy looked_up(std::uint32_t place) const
  {
    std::uint32_t const index = first_ + place;
    return index < copies_.count && index >= first_ ? joined(copies_.list(index)) : strided_copy{};
  }

  /// The copy at a place, which on the device is the lane's own.
  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy own([[maybe_unused]] std::uint32_t place) const
  {
#ifdef __CUDA_ARCH__
    return own_;
#else
    return looked_up(place);
#endif
  }

  /// The copy at any place; all lanes of the warp call it.
  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy of(std::uint32_t place) const
  {
#ifdef __CUDA_ARCH__
    auto const of_lane = [place](auto value) {
      auto const bits = reinterpret_cast<unsigned long long>(value);
      return __shfl_sync(0xffffffff, bits, static_cast<int>(place));
    };
    return strided_copy::contiguous(reinterpret_cast<std::byte const*>(of_lane(own_.from)),
                                    reinterpret_cast<std::byte*>(of_lane(own_.to)),
                                    __shfl_sync(0xffffffff, own_.run, static_cast<int>(place)));
#else
    return looked_up(place);
#endif
  }

  [[nodiscard]] BALLAST_HOST_DEVICE tile_range tiles_of_place(tile_range const& range,
                                                              std::uint32_t place) const
  {
    std::size_t const tiles = tiles_of(own(place), copies_.tile_bytes);
    return tiles == 0 ? tile_range{} : range.in_copy(copies_.tiles_to[first_ + place], tiles);
  }

  tiled_list<List> const& copies_;
  std::uint32_t first_;
#ifdef __CUDA_ARCH__
  strided_copy own_;
#endif
};

/// Makes one lane's part of one of the equal shares of all tiles: of t tiles and s shares, share i
/// is tiles floor(i t / s) to floor((i + 1) t / s) - 1, wherever copies begin and end, counted from
/// the first copy that is made.
///
/// Expects     copies.count >= 1; share < shares; t / s < 2^32; all lanes of the warp call it.
/// Complexity  O(t / s + log count), and O(log count) for each run of more than 32 empty copies.
template <copy_list List>
BALLAST_HOST_DEVICE void copy_share(tiled_list<List> const& copies, std::uint64_t share,
                                    std::uint64_t shares, std::uint32_t lane)
{
  std::uint64_t const before = copies.tiles_before();
  std::uint64_t const tiles = copies.tiles_to[copies.count - 1] - before;
  std::uint64_t tile = before + share * tiles / shares;
  auto left = static_cast<std::uint32_t>(before + (share + 1) * tiles / shares - tile);
  for (std::uint32_t next = copies.first; left > 0;) {
    std::uint32_t const index =
        tile_search::first_above(copies.tiles_to, tile, next, copies.count, lane);
    if constexpr (contiguous_copy_list<List>) {
      copy_window<List>(copies, index, lane).make({tile, tile + left}, lane);
      next = copies.count - index > warp_lanes ? index + warp_lanes : copies.count;
      std::uint64_t const ahead = copies.tiles_to[next - 1] - tile;
      std::uint32_t const here = ahead < left ? static_cast<std::uint32_t>(ahead) : left;
      tile += here;
      left -= here;
    } else {
      std::uint64_t in_copy = tile - (index == 0 ? 0 : copies.tiles_to[index - 1]);
      std::uint64_t const ahead = copies.tiles_to[index] - tile;
      std::uint32_t here = ahead < left ? static_cast<std::uint32_t>(ahead) : left;
      tile += here;
      left -= here;
      next = index + 1;
      strided_copy const copy = joined(copies.list(index));
      for (; here > 0; --here) { copy_tile<List>(copy, in_copy++, copies.tile_bytes, lane); }
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_COPY_SHARE_HPP
