// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_WARP_HPP
#define BALLAST_CUDA_DETAIL_COPY_WARP_HPP

#include <ballast/core/config.hpp>

#include <bit>
#include <cstdint>

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_WARP_HPP
