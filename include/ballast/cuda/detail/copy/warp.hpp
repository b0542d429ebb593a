// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_WARP_HPP
#define BALLAST_CUDA_DETAIL_COPY_WARP_HPP

#include <ballast/core/contract.hpp>

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_WARP_HPP
