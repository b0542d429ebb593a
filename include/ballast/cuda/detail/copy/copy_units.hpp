// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_COPY_UNITS_HPP
#define BALLAST_CUDA_DETAIL_COPY_COPY_UNITS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/cuda/detail/copy/warp.hpp>
#include <ballast/cuda/detail/copy/wide_access.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <vector_types.h>  // uint2, uint4

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_COPY_UNITS_HPP
