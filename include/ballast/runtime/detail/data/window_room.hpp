// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_WINDOW_ROOM_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_WINDOW_ROOM_HPP

#include <ballast/runtime/data/window_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// The places that are left in the steps of a window, and whether all units that have none can
/// still get one in time.
///
/// A unit may take any place up to its last step. So all fit exactly when, for each step u, no more
/// units must train up to u than there are places up to u (Hall's condition for nested sets).
///
/// Ensures     (1) after place() of what fits() all units that are left fit
/// Complexity  O(steps) a call.
class window_room {
 public:
  explicit window_room(window_problem const& problem)
      : last_(problem.steps - 1),
        held_back_(problem.held_back),
        places_(problem.steps),
        spare_(problem.steps)
  {
    for (std::uint32_t const step : problem.arrived) {
      ++places_[step];
      for (std::size_t u = step; u <= last_; ++u) { ++spare_[u]; }
      for (std::size_t u = last_step(step); u <= last_; ++u) { --spare_[u]; }
    }
  }

  /// The last step in which a unit may train.
  [[nodiscard]] std::size_t last_step(std::size_t arrived) const
  {
    return held_back_ < last_ - arrived ? arrived + held_back_ : last_;
  }

  [[nodiscard]] std::size_t places(std::size_t step) const { return places_[step]; }

  /// Whether a unit may train in this step.
  [[nodiscard]] bool fits(std::size_t arrived, std::size_t step) const
  {
    std::size_t const last = last_step(arrived);
    if (places_[step] == 0 || step > last) { return false; }
    return std::all_of(spare_.begin() + static_cast<std::ptrdiff_t>(step),
                       spare_.begin() + static_cast<std::ptrdiff_t>(last),
                       [](std::int64_t spare) { return spare > 0; });
  }

  void place(std::size_t arrived, std::size_t step)
  {
    --places_[step];
    for (std::size_t u = step; u < last_step(arrived); ++u) { --spare_[u]; }
  }

 private:
  std::size_t last_;
  std::size_t held_back_;
  std::vector<std::size_t> places_;
  std::vector<std::int64_t> spare_;  // places up to each step that no unit must have
};

/// Units, the heaviest first, of equal ones the first.
[[nodiscard]] inline std::vector<std::uint32_t> heaviest_units(window_problem const& problem)
{
  std::vector<std::uint32_t> order(problem.costs.size());
  for (std::size_t unit = 0; unit < order.size(); ++unit) {
    order[unit] = static_cast<std::uint32_t>(unit);
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return problem.costs[a] > problem.costs[b] || (problem.costs[a] == problem.costs[b] && a < b);
  });
  return order;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_WINDOW_ROOM_HPP
