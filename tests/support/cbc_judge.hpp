// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast_test {

/// What an integer program solver that knows nothing of ours says of a step.
struct cbc_verdict {
  std::optional<ballast::cost_units> makespan;  ///< of its best plan; none found in time: nothing
  bool proven = false;                          ///< that no plan is better
};

/// Has COIN-OR's CBC place samples in alike bags: minimise T over binary x with
///
///     sum_b x[i][b] = 1 for every sample i,   sum_i cost[i] x[i][b] <= T for every bag b
///
/// where of n samples, heaviest first, sample i may be in bags 0 to i only, since bags are alike.
///
/// Expects     at least one bag; costs below 2^40, which the solver's floating point tells apart.
[[nodiscard]] cbc_verdict ask_cbc(std::span<ballast::cost_units const> costs, std::size_t bags,
                                  double seconds);

}  // namespace ballast_test
