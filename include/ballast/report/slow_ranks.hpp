// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_SLOW_RANKS_HPP
#define BALLAST_REPORT_SLOW_RANKS_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/runtime/shape_bucket.hpp>
#include <ballast/text/decimal.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0::report {

/// Says which ranks take longer than planned, a line each, slowest first; empty where none takes
/// more than `percent` longer than the median rank of its module.
///
/// Shapes      rank_factors[ranks], those of adaptive_correction.
/// Complexity  O(ranks log ranks).
[[nodiscard]] inline std::string slow_ranks(std::span<std::uint32_t const> rank_factors,
                                            std::uint32_t percent = 5)
{
  std::vector<std::size_t> slowest_first(rank_factors.size());
  std::iota(slowest_first.begin(), slowest_first.end(), std::size_t{0});
  std::sort(slowest_first.begin(), slowest_first.end(), [&](std::size_t a, std::size_t b) {
    return ballast::detail::precedes(rank_factors[b], rank_factors[a], a, b);
  });
  std::string text;
  for (std::size_t const rank : slowest_first) {
    std::uint64_t const factor = rank_factors[rank];
    if (factor * 100 <= std::uint64_t{unchanged_factor} * (100 + percent)) { break; }
    std::uint64_t const hundredths = (factor * 100 + unchanged_factor / 2) / unchanged_factor;
    text += detail::concat("rank ", rank, " takes ",
                           decimal::make(static_cast<std::int64_t>(hundredths), 2).text(2),
                           " x as long as planned\n");
  }
  return text;
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_SLOW_RANKS_HPP
