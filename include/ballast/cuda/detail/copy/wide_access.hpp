// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_WIDE_ACCESS_HPP
#define BALLAST_CUDA_DETAIL_COPY_WIDE_ACCESS_HPP

#include <ballast/core/contract.hpp>

#include <vector_types.h>  // uint2, uint4

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ballast::inline v0::detail {

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

/// Writes a T as load_as reads it.
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_WIDE_ACCESS_HPP
