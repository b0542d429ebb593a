// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_PARALLEL_DEGREE_HPP
#define BALLAST_COST_PARALLEL_DEGREE_HPP

#include <ballast/core/detail/concat.hpp>

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace ballast::inline v0 {

/// How the GPUs that compute one microbatch of some layers share it: each has its part of every
/// product with weights (tensor parallelism), of the tokens (sequence, or context, parallelism) and
/// of the experts of a mixture (expert parallelism). They wait for each other in every layer.
///
/// Ensures     (1) ordered by tp, then sp, then ep
struct parallel_degree {
  std::uint32_t tp = 1;
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  /// The largest number where the product does not fit.
  [[nodiscard]] constexpr std::uint64_t gpus() const noexcept
  {
    std::uint64_t const shared = std::uint64_t{tp} * sp;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return ep != 0 && shared > most / ep ? most : shared * ep;
  }

  friend bool operator==(parallel_degree const&, parallel_degree const&) = default;
  friend std::strong_ordering operator<=>(parallel_degree const&, parallel_degree const&) = default;
};

/// That of anything that has tp, sp and ep: a measured degree, a layout, a point to profile.
template <class Parallel>
[[nodiscard]] constexpr parallel_degree degree_of(Parallel const& each) noexcept
{
  return {each.tp, each.sp, each.ep};
}

/// "tp 4", or "tp 4 sp 2 ep 8", without what is 1 behind tp.
[[nodiscard]] inline std::string text_of(parallel_degree const& degree)
{
  std::string text = detail::concat("tp ", degree.tp);
  if (degree.sp != 1) { text += detail::concat(" sp ", degree.sp); }
  if (degree.ep != 1) { text += detail::concat(" ep ", degree.ep); }
  return text;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_PARALLEL_DEGREE_HPP
