// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_SIMD_LEVELS_HPP
#define BALLAST_TESTS_SUPPORT_SIMD_LEVELS_HPP

#include <ballast/pipeline/detail/evaluation/order_lanes.hpp>

#include <vector>

namespace ballast_test {

/// What this machine can run: portable code, and the best instructions that it has.
[[nodiscard]] inline std::vector<ballast::detail::simd_level> simd_levels()
{
  using ballast::detail::simd_level;
  std::vector<simd_level> levels{simd_level::portable};
  if (ballast::detail::best_simd_level() != simd_level::portable) {
    levels.push_back(ballast::detail::best_simd_level());
  }
  return levels;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_SIMD_LEVELS_HPP
