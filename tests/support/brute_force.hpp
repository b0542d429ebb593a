// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_BRUTE_FORCE_HPP
#define BALLAST_TESTS_SUPPORT_BRUTE_FORCE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ballast_test {

/// A step small enough to try every assignment.
struct instance {
  std::vector<ballast::tokens> lengths;
  std::vector<ballast::cost_units> costs;
  std::vector<std::uint32_t> gpus;
  std::vector<std::uint32_t> gpu_speeds = {};  ///< of the GPUs of each bag; empty: all 1

  [[nodiscard]] std::uint32_t speed_of(std::size_t bag) const
  {
    return gpus[bag] * (gpu_speeds.empty() ? 1 : gpu_speeds[bag]);
  }
};

/// The least makespan of all m^n assignments of whole samples to bags that have no more GPUs than
/// the sample has tokens; nothing where some sample fits no bag.
inline std::optional<ballast::ratio> optimum(instance const& step,
                                             std::vector<ballast::cost_units>& loads,
                                             std::size_t sample = 0)
{
  std::optional<ballast::ratio> best;
  if (sample == step.costs.size()) {
    best = ballast::ratio{0, 1};
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      best = std::max(*best, ballast::ratio{loads[bag], step.speed_of(bag)});
    }
    return best;
  }
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    ballast::tokens const length = step.lengths[sample];
    if (length != 0 && length < static_cast<ballast::tokens>(step.gpus[bag])) { continue; }
    loads[bag] += step.costs[sample];
    auto const found = optimum(step, loads, sample + 1);
    if (found && (!best || *found < *best)) { best = found; }
    loads[bag] -= step.costs[sample];
  }
  return best;
}

inline std::optional<ballast::ratio> optimum(instance const& step)
{
  std::vector<ballast::cost_units> loads(step.gpus.size(), 0);
  return optimum(step, loads);
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_BRUTE_FORCE_HPP
