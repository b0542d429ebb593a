// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast_test {

/// A step as an integer program sees it. Empty vectors ask for nothing.
struct cbc_step {
  struct cap {
    std::vector<std::int64_t> takes;  ///< of each sample
    std::vector<std::int64_t> room;   ///< of each bag
  };
  std::vector<ballast::cost_units> costs;
  std::vector<std::int64_t> speeds;  ///< of each bag
  std::vector<cap> caps;
  std::int64_t least = 0;  ///< samples of a bag
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t multiple = 1;           ///< a bag has a multiple of so many
  std::vector<std::int64_t> apart;     ///< keys: samples of one key lie in different bags
  std::vector<std::int64_t> together;  ///< keys: samples of one key lie in one bag
  std::vector<bool> fits;              ///< [samples bags]
};

/// What an integer program solver that knows nothing of ours says of a step.
struct cbc_verdict {
  std::optional<ballast::ratio> makespan;  ///< of its best plan; none found in time: nothing
  double bound = 0;                        ///< no plan is shorter, as far as floating point tells
  bool proven = false;                     ///< that no plan is better, or that none exists
};

/// Has COIN-OR's CBC place samples in bags: minimise T over binary x with
///
///     sum_b x[i][b] = 1 for every sample i,   sum_i cost[i] x[i][b] <= speed[b] T for every bag b
///
/// and the limits, each as it reads: sums of what samples take and of their number, at most one
/// sample of a key that is apart, and equal x where samples stay together. Where bags are alike,
/// sample i may be in bags 0 to i only.
///
/// Expects     at least one bag; costs below 2^40, which the solver's floating point tells apart.
[[nodiscard]] cbc_verdict ask_cbc(cbc_step const& step, double seconds);

/// The same of bags that are alike, without limits.
[[nodiscard]] cbc_verdict ask_cbc(std::span<ballast::cost_units const> costs, std::size_t bags,
                                  double seconds);

}  // namespace ballast_test
