// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_COPY_TILE_SEARCH_HPP
#define BALLAST_CUDA_DETAIL_COPY_TILE_SEARCH_HPP

#include <ballast/core/config.hpp>
#include <ballast/cuda/detail/copy/warp.hpp>

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_COPY_TILE_SEARCH_HPP
