// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/tables.hpp>

#include <vector_types.h>  // uint4

namespace ballast::inline v0::detail {

inline constexpr std::uint32_t warp_lanes = 32;  // of every GPU that CUDA runs on

/// Expects     votes != 0.
[[nodiscard]] BALLAST_HOST_DEVICE inline std::uint32_t first_lane(std::uint32_t votes)
{
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(votes))) - 1;
#else
  return static_cast<std::uint32_t>(std::countr_zero(votes));
#endif
}

/// Returns the votes of a warp: bit i is yes(i), of lane i. On the device lane `lane` takes part; on
/// the host the function computes all votes.
template <class Yes>
[[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t votes_of([[maybe_unused]] std::uint32_t lane,
                                                         Yes const& yes)
{
#ifdef __CUDA_ARCH__
  return __ballot_sync(0xffffffff, yes(lane));
#else
  std::uint32_t votes = 0;
  for (std::uint32_t voter = 0; voter < warp_lanes; ++voter) {
    votes |= std::uint32_t{yes(voter)} << voter;
  }
  return votes;
#endif
}

/// Reads a T, one of uint4, uint2 and the unsigned integers, in one access of global memory.
///
/// Expects     from is aligned to sizeof(T).
template <class T>
[[nodiscard]] BALLAST_HOST_DEVICE T load_as(std::byte const* from)
{
#ifdef __CUDA_ARCH__
  return __ldca(reinterpret_cast<T const*>(from));  // a plain pointer's address space is unknown
#else
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
#endif
}

template <class T>
BALLAST_HOST_DEVICE void store_as(std::byte* to, T value)
{
#ifdef __CUDA_ARCH__
  __stwb(reinterpret_cast<T*>(to), value);
#else
  std::memcpy(to, &value, sizeof(T));
#endif
}

/// Asks for the line of memory that a byte is in, which will be read soon.
BALLAST_HOST_DEVICE inline void prefetch([[maybe_unused]] std::byte const* from)
{
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}

/// Returns the low word of high:low shifted right by 0 to 31 bits.
[[nodiscard]] BALLAST_HOST_DEVICE inline std::uint32_t funnel_shift(std::uint32_t low,
                                                                    std::uint32_t high,
                                                                    std::uint32_t bits)
{
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits);
#endif
}

/// Returns bytes `shift` to `shift + 15` of the 32 bytes of `low` and `high` in memory.
///
/// Expects     shift < 16.
[[nodiscard]] BALLAST_HOST_DEVICE inline uint4 bytes_across(uint4 low, uint4 high,
                                                            std::uint32_t shift)
{
  // A word at a computed index would be in memory: the shift's bits choose it, twos before ones.
  bool const two = (shift & 8) != 0;
  std::uint32_t const a = two ? low.z : low.x;
  std::uint32_t const b = two ? low.w : low.y;
  std::uint32_t const c = two ? high.x : low.z;
  std::uint32_t const d = two ? high.y : low.w;
  std::uint32_t const e = two ? high.z : high.x;
  std::uint32_t const f = two ? high.w : high.y;
  bool const one = (shift & 4) != 0;
  std::uint32_t const p = one ? b : a;
  std::uint32_t const q = one ? c : b;
  std::uint32_t const r = one ? d : c;
  std::uint32_t const s = one ? e : d;
  std::uint32_t const t = one ? f : e;
  std::uint32_t const bits = shift % 4 * 8;
  return {funnel_shift(p, q, bits), funnel_shift(q, r, bits), funnel_shift(r, s, bits),
          funnel_shift(s, t, bits)};
}

/// Returns by how many bytes a pointer is past a 16-byte boundary.
[[nodiscard]] BALLAST_HOST_DEVICE inline std::uint32_t behind_boundary(std::byte const* at)
{
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at) % 16);
}

/// The vectors of 16 bytes in a piece [begin, end) of `bytes` contiguous bytes: `count` of them,
/// from byte `first` on. The other bytes of the piece are copied one by one.
///
/// Ensures     (1) vectors begin at 16-byte boundaries of `to`, `shift` bytes past boundaries of
///                 `from`
///             (2) reads from boundary to boundary of `from` that cover the vectors read nothing
///                 outside of those `bytes`, though some may belong to other pieces
///             (3) as many vectors as (1) and (2) allow: at most 31 bytes before them and after
///                 them
struct piece_vectors {
  std::size_t first;
  std::uint32_t count;
  std::uint32_t shift;

  [[nodiscard]] BALLAST_HOST_DEVICE static piece_vectors of(std::byte const* from,
                                                            std::byte const* to, std::size_t bytes,
                                                            std::size_t begin, std::size_t end)
  {
    std::size_t first = begin + (16 - behind_boundary(to + begin)) % 16;
    std::uint32_t const shift = behind_boundary(from + first);
    if (first < shift) { first += 16; }
    std::size_t last = end;
    if (shift != 0) {
      std::size_t const whole = bytes < 16 ? 0 : bytes - 16 + shift;
      last = whole < end ? whole : end;
    }
    if (last < first) { return {end, 0, shift}; }
    return {first, static_cast<std::uint32_t>((last - first) / 16), shift};
  }
};

template <std::uint32_t Lanes>
BALLAST_HOST_DEVICE void copy_bytes(std::byte const* from, std::byte* to, std::size_t begin,
                                    std::size_t end, std::uint32_t lane)
{
  for (std::size_t byte = begin + lane; byte < end; byte += Lanes) {
    store_as(to + byte, load_as<unsigned char>(from + byte));
  }
}

/// Copies vectors that are aligned on both sides. A lane loads several before it stores the first.
template <std::uint32_t Lanes>
BALLAST_HOST_DEVICE void copy_aligned(std::byte const* from, std::byte* to, std::uint32_t count,
                                      std::uint32_t lane)
{
  constexpr std::uint32_t depth = 4;
  for (std::uint32_t first = lane; first < count; first += depth * Lanes) {
    std::uint32_t const left = count - first;
    std::size_t const at = std::size_t{first} * 16;
    uint4 held[depth] = {};
    for (std::uint32_t step = 0; step < depth; ++step) {
      std::size_t const ahead = std::size_t{step} * Lanes;
      if (ahead < left) { held[step] = load_as<uint4>(from + at + ahead * 16); }
    }
    for (std::uint32_t step = 0; step < depth; ++step) {
      std::size_t const ahead = std::size_t{step} * Lanes;
      if (ahead < left) { store_as(to + at + ahead * 16, held[step]); }
    }
  }
}

/// The same if `from` is `shift` bytes past a boundary: each vector is cut out of two aligned ones.
/// The second of these is the next lane's first, so it comes from the nearest cache.
template <std::uint32_t Lanes>
BALLAST_HOST_DEVICE void copy_shifted(std::byte const* from, std::byte* to, std::uint32_t count,
                                      std::uint32_t shift, std::uint32_t lane)
{
  constexpr std::uint32_t depth = 2;  // pairs
  for (std::uint32_t first = lane; first < count; first += depth * Lanes) {
    std::uint32_t const left = count - first;
    std::size_t const at = std::size_t{first} * 16;
    std::byte const* const boundary = from - shift + at;
    uint4 low[depth] = {};
    uint4 high[depth] = {};
    for (std::uint32_t step = 0; step < depth; ++step) {
      std::size_t const ahead = std::size_t{step} * Lanes;
      if (ahead < left) {
        low[step] = load_as<uint4>(boundary + ahead * 16);
        high[step] = load_as<uint4>(boundary + ahead * 16 + 16);
      }
    }
    for (std::uint32_t step = 0; step < depth; ++step) {
      std::size_t const ahead = std::size_t{step} * Lanes;
      if (ahead < left) {
        store_as(to + at + ahead * 16, bytes_across(low[step], high[step], shift));
      }
    }
  }
}

/// Makes one lane's part of the copy of bytes [begin, end) of `bytes` contiguous ones, by all lanes
/// of a warp or some.
///
/// Expects     begin <= end <= bytes; end - begin < 2^32; lane < Lanes.
/// Ensures     (1) the lanes write each byte of the piece once, and no other
///             (2) no byte is read but those `bytes`
template <std::uint32_t Lanes = warp_lanes>
BALLAST_HOST_DEVICE void copy_piece(std::byte const* from, std::byte* to, std::size_t bytes,
                                    std::size_t begin, std::size_t end, std::uint32_t lane)
{
  piece_vectors const vectors = piece_vectors::of(from, to, bytes, begin, end);
  copy_bytes<Lanes>(from, to, begin, vectors.first, lane);
  copy_bytes<Lanes>(from, to, vectors.first + std::size_t{vectors.count} * 16, end, lane);
  if (vectors.shift == 0) {
    copy_aligned<Lanes>(from + vectors.first, to + vectors.first, vectors.count, lane);
  } else {
    copy_shifted<Lanes>(from + vectors.first, to + vectors.first, vectors.count, vectors.shift,
                        lane);
  }
}

/// Returns the largest power of two up to 16 that divides both pointers, both strides and the run.
[[nodiscard]] BALLAST_HOST_DEVICE inline std::uint32_t unit_of(strided_copy const& copy)
{
  std::size_t const all = reinterpret_cast<std::uintptr_t>(copy.from) |
                          reinterpret_cast<std::uintptr_t>(copy.to) | copy.from_stride |
                          copy.to_stride | copy.run | 16;
  return static_cast<std::uint32_t>(all & (~all + 1));
}

/// A place in consecutive runs, which advances by additions: a division for each unit would take
/// longer than the copy of the unit.
struct run_cursor {
  std::uint32_t row;
  std::uint32_t column;  // in bytes

  [[nodiscard]] BALLAST_HOST_DEVICE static constexpr run_cursor at(std::uint32_t byte,
                                                                   std::uint32_t run)
  {
    return {byte / run, byte % run};
  }

  BALLAST_HOST_DEVICE constexpr void advance(run_cursor const& step, std::uint32_t run)
  {
    row += step.row;
    column += step.column;
    if (column >= run) {
      column -= run;
      ++row;
    }
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t offset(std::size_t stride) const
  {
    return row * stride + column;
  }
};

/// Copies one lane's units of bytes [begin, end) of a copy, whose runs are counted one after
/// another. A unit is a T on both sides. A lane loads several before it stores the first.
template <class T>
BALLAST_HOST_DEVICE void copy_units_as(strided_copy const& copy, std::size_t begin, std::size_t end,
                                       std::uint32_t lane)
{
  constexpr std::uint32_t depth = 4;
  constexpr auto unit = static_cast<std::uint32_t>(sizeof(T));
  auto const run = static_cast<std::uint32_t>(copy.run);
  std::size_t const row = begin / copy.run;
  auto const column = static_cast<std::uint32_t>(begin - row * copy.run);
  std::byte const* const from = copy.from + row * copy.from_stride;
  std::byte* const to = copy.to + row * copy.to_stride;
  auto const units = static_cast<std::uint32_t>(end - begin) / unit;

  run_cursor const step = run_cursor::at(warp_lanes * unit, run);
  run_cursor load_at = run_cursor::at(column + lane * unit, run);
  run_cursor store_at = load_at;
  for (auto left = static_cast<std::int32_t>(units - lane); left > 0;
       left -= static_cast<std::int32_t>(depth * warp_lanes)) {
    T held[depth] = {};
    for (std::uint32_t ahead = 0; ahead < depth; ++ahead) {
      if (static_cast<std::int32_t>(ahead * warp_lanes) < left) {
        held[ahead] = load_as<T>(from + load_at.offset(copy.from_stride));
      }
      load_at.advance(step, run);
    }
    for (std::uint32_t ahead = 0; ahead < depth; ++ahead) {
      if (static_cast<std::int32_t>(ahead * warp_lanes) < left) {
        store_as(to + store_at.offset(copy.to_stride), held[ahead]);
      }
      store_at.advance(step, run);
    }
  }
}

/// Copies one lane's part of bytes [begin, end) of a copy, whose runs are counted one after
/// another.
///
/// Expects     1 <= run <= 2^30; end - begin <= 2^30; begin and end are multiples of 16 or the end.
/// Ensures     the warp's lanes write each of these bytes once, and no other
BALLAST_HOST_DEVICE inline void copy_units(strided_copy const& copy, std::size_t begin,
                                           std::size_t end, std::uint32_t lane)
{
  switch (unit_of(copy)) {
    case 16: copy_units_as<uint4>(copy, begin, end, lane); break;
    case 8: copy_units_as<uint2>(copy, begin, end, lane); break;
    case 4: copy_units_as<unsigned int>(copy, begin, end, lane); break;
    case 2: copy_units_as<unsigned short>(copy, begin, end, lane); break;
    default: copy_units_as<unsigned char>(copy, begin, end, lane); break;
  }
}

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
