// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// The sum of two costs; anything added to `no_cost` is `no_cost`.
///
/// Expects     a >= 0 and b >= 0.
/// Ensures     (1) a + b where that is below no_cost, else no_cost
/// Complexity  O(1).
[[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units saturating_sum(cost_units a, cost_units b)
{
  BALLAST_EXPECTS(a >= 0, "a cost of ", a, " was to be added, and the least is 0");
  BALLAST_EXPECTS(b >= 0, "a cost of ", b, " was to be added, and the least is 0");
  return b < no_cost - a ? a + b : no_cost;
}

}  // namespace ballast::inline v0
