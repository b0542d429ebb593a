// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"

#include <ballast/core.hpp>

namespace ballast_test {

/// A step, mostly one small enough to try every assignment.
struct instance {
  std::vector<ballast::tokens> lengths;
  std::vector<ballast::cost_units> costs;
  std::vector<std::uint32_t> gpus;
  std::vector<std::uint32_t> gpu_speeds = {};    ///< of the GPUs of each bag; empty: all 1
  std::vector<ballast::cost_units> before = {};  ///< the work that bags have at first; or none
  /// The part of each cost that counts as often as its batch has samples, as large as the largest in
  /// the batch. Without, a batch takes the sum of its costs.
  std::vector<ballast::cost_units> padded = {};

  [[nodiscard]] std::uint32_t speed_of(std::size_t bag) const
  {
    return gpus[bag] * (gpu_speeds.empty() ? 1 : gpu_speeds[bag]);
  }
  /// A bag has no more GPUs than the sample has tokens.
  [[nodiscard]] bool fits(std::size_t sample, std::size_t bag) const
  {
    return lengths[sample] == 0 || lengths[sample] >= static_cast<ballast::tokens>(gpus[bag]);
  }
  [[nodiscard]] bool all_fit(assignment const& owner) const
  {
    bool all = true;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      all = all && fits(sample, owner[sample]);
    }
    return all;
  }
  /// What the batches of all bags take, and what bags have at first.
  [[nodiscard]] std::vector<ballast::cost_units> loads(assignment const& owner) const
  {
    std::vector<ballast::cost_units> loads = before;
    loads.resize(gpus.size());
    loads = sums_of(owner, costs, std::move(loads));
    for (std::size_t bag = 0; bag < loads.size() && !padded.empty(); ++bag) {
      ballast::cost_units largest = 0;
      ballast::cost_units samples = 0;
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        if (owner[sample] != bag) { continue; }
        loads[bag] -= padded[sample];
        largest = std::max(largest, padded[sample]);
        ++samples;
      }
      loads[bag] += samples * largest;
    }
    return loads;
  }
  [[nodiscard]] ballast::ratio makespan_of(std::vector<ballast::cost_units> const& loads) const
  {
    ballast::ratio latest{0, 1};
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      latest = std::max(latest, ballast::ratio{loads[bag], speed_of(bag)});
    }
    return latest;
  }
};

/// The least makespan of the assignments of whole samples to bags they fit that `allowed(owner)`
/// holds for; nothing where there is none. It is asked about the first samples too.
template <class Allowed>
std::optional<ballast::ratio> optimum_where(instance const& step, Allowed const& allowed)
{
  return least_of_all(step.costs.size(), step.gpus.size(), [&](assignment const& owner) {
    return step.all_fit(owner) && allowed(owner)
               ? std::optional(step.makespan_of(step.loads(owner)))
               : std::nullopt;
  });
}

inline std::optional<ballast::ratio> optimum(instance const& step)
{
  return optimum_where(step, [](assignment const&) { return true; });
}

}  // namespace ballast_test
