// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_COPY_PIECE_HPP
#define BALLAST_CUDA_DETAIL_COPY_COPY_PIECE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/cuda/detail/copy/warp.hpp>
#include <ballast/cuda/detail/copy/wide_access.hpp>

#include <vector_types.h>  // uint4

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_COPY_PIECE_HPP
