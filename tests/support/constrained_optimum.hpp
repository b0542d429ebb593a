// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_CONSTRAINED_OPTIMUM_HPP
#define BALLAST_TESTS_SUPPORT_CONSTRAINED_OPTIMUM_HPP

#include "brute_force.hpp"  // defines: ballast_test::instance

#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace ballast_test {

/// The least makespan of the assignments of samples to bags they fit that `allowed(owner)` holds
/// for; nothing where it holds for none. Tries all m^n, so keep n small.
template <class Allowed>
std::optional<ballast::ratio> optimum_where(instance const& step, Allowed const& allowed)
{
  std::size_t const samples = step.costs.size();
  std::size_t const bags = step.gpus.size();
  std::optional<ballast::ratio> best;
  std::vector<std::size_t> owner(samples, 0);
  for (;;) {
    std::vector<ballast::cost_units> loads(bags, 0);
    bool fits = true;
    for (std::size_t sample = 0; sample < samples; ++sample) {
      ballast::tokens const length = step.lengths[sample];
      auto const gpus = static_cast<ballast::tokens>(step.gpus[owner[sample]]);
      fits = fits && (length == 0 || length >= gpus);
      loads[owner[sample]] += step.costs[sample];
    }
    if (fits && allowed(owner)) {
      ballast::ratio makespan;
      for (std::size_t bag = 0; bag < bags; ++bag) {
        makespan = std::max(makespan, ballast::ratio{loads[bag], step.speed_of(bag)});
      }
      if (!best || makespan < *best) { best = makespan; }
    }
    std::size_t sample = 0;
    while (sample < samples && ++owner[sample] == bags) { owner[sample++] = 0; }
    if (sample == samples) { return best; }
  }
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_CONSTRAINED_OPTIMUM_HPP
