// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/data/data_setup.hpp>

namespace ballast_test {

using unit_steps = std::vector<std::uint32_t>;

/// A window of a few units, some of equal cost.
struct drawn_window {
  std::vector<ballast::cost_units> costs;
  unit_steps arrived;
  std::size_t steps = 1;
  std::size_t held_back = 0;

  [[nodiscard]] ballast::window_problem problem() const
  {
    return {costs, arrived, steps, held_back};
  }
};

inline drawn_window draw_window(ballast::random_source& random, std::size_t most_units,
                                std::size_t most_steps)
{
  drawn_window drawn;
  drawn.steps = 1 + random.below(most_steps);
  drawn.held_back = random.below(drawn.steps + 1);
  for (std::size_t units = random.below(most_units + 1); units > 0; --units) {
    drawn.costs.push_back(random.between(0, 20));
    drawn.arrived.push_back(static_cast<std::uint32_t>(random.below(drawn.steps)));
  }
  std::ranges::sort(drawn.arrived);
  return drawn;
}

/// Whether units may train in these steps, as the concept has it; a step of drawn.steps says that
/// the unit has none yet, and is left to be given any place that is free, the most urgent first.
inline bool can_be_completed(drawn_window const& drawn, unit_steps const& step)
{
  std::vector<std::int64_t> places(drawn.steps);
  for (std::uint32_t const each : drawn.arrived) { ++places[each]; }
  for (std::size_t unit = 0; unit < step.size(); ++unit) {
    if (step[unit] == drawn.steps) { continue; }
    if (step[unit] > drawn.arrived[unit] + drawn.held_back || --places[step[unit]] < 0) {
      return false;
    }
  }
  std::size_t first = 0;
  for (std::size_t unit = 0; unit < step.size(); ++unit) {  // the most urgent first
    if (step[unit] < drawn.steps) { continue; }
    while (places[first] == 0) { ++first; }
    if (first > drawn.arrived[unit] + drawn.held_back) { return false; }
    --places[first];
  }
  return true;
}

template <class Policy>
unit_steps steps_by(Policy const& policy, drawn_window const& drawn,
                    std::vector<ballast::cost_units>& loads)
{
  unit_steps step(drawn.costs.size(), static_cast<std::uint32_t>(drawn.steps));
  policy(drawn.problem(), std::span(loads), std::span(step));
  return step;
}

}  // namespace ballast_test
