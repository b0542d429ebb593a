// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_NEAR_EQUAL_STEPS_HPP
#define BALLAST_TESTS_SUPPORT_NEAR_EQUAL_STEPS_HPP

#include "brute_force.hpp"  // defines: ballast_test::instance

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast_test {

/// A step of bags of one GPU whose costs a search by the lightest samples makes nothing of. By
/// turns: nearly equal costs with a few light ones; two kinds that are 3 % apart within a kind; 5 %
/// short samples among long ones; ties; nearly equal costs and one giant.
inline instance near_equal_step(ballast::random_source& random, std::size_t samples,
                                std::size_t bags)
{
  instance step;
  step.gpus.assign(bags, 1);
  auto const family = random.below(5);
  ballast::cost_units const most = random.below(2) == 0 ? 1000 : 100'000;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    ballast::cost_units cost = random.between(most * 9 / 10, most);
    if (family == 0 && random.below(50) == 0) { cost = random.between(1, most / 5); }
    if (family == 1) {
      cost = most * (random.below(3) == 0 ? 4 : 1) + random.between(0, most / 30);
    }
    if (family == 2) {
      cost = random.below(20) == 0 ? random.between(1, most / 4) : most + cost / 50;
    }
    if (family == 3) { cost = most + random.between(0, 2); }
    if (family == 4 && sample == 0) {
      cost = most * static_cast<ballast::cost_units>(samples / bags);
    }
    step.costs.push_back(cost);
    step.lengths.push_back(1);
  }
  return step;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_NEAR_EQUAL_STEPS_HPP
