// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_SAMPLES_THAT_COST_HPP
#define BALLAST_TESTS_SUPPORT_SAMPLES_THAT_COST_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <functional>
#include <vector>

namespace ballast_test {

/// Samples of these costs, heaviest first, numbered in this order.
[[nodiscard]] inline std::vector<ballast::priced_sample> samples_that_cost(
    std::vector<ballast::cost_units> costs)
{
  std::ranges::sort(costs, std::greater{});
  std::vector<ballast::priced_sample> samples;
  for (ballast::cost_units const cost : costs) {
    samples.push_back({cost, ballast::to_id<ballast::sample_id>(samples.size())});
  }
  return samples;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_SAMPLES_THAT_COST_HPP
