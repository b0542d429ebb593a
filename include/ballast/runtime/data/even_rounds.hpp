// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_EVEN_ROUNDS_HPP
#define BALLAST_RUNTIME_DATA_EVEN_ROUNDS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/runtime/data/window_problem.hpp>
#include <ballast/runtime/detail/data/window_room.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Gives the steps of a window about the same work, so that steps take equally long and need as
/// much memory: the heaviest units first, each into the step with the least work.
///
/// Ensures     (1) what window_policy promises
///             (2) from heaviest to lightest, each unit trains in the step with the least work of
///                 those where it leaves all lighter ones a place in time; of equal steps the first
/// Complexity  O(n (log n + steps^2)).
/// Source      longest processing time first, with equal counts (R. L. Graham, 1969).
struct even_rounds {
  void operator()(window_problem const& problem, std::span<cost_units> loads,
                  std::span<std::uint32_t> step) const
  {
    detail::window_room room(problem);
    for (std::uint32_t const unit : detail::heaviest_units(problem)) {
      std::size_t const arrived = problem.arrived[unit];
      std::size_t best = problem.steps;
      for (std::size_t each = 0; each <= room.last_step(arrived); ++each) {
        bool const less = best == problem.steps || loads[each] < loads[best];
        if (less && room.fits(arrived, each)) { best = each; }
      }
      room.place(arrived, best);
      step[unit] = static_cast<std::uint32_t>(best);
      loads[best] += problem.costs[unit];
    }
  }

  friend bool operator==(even_rounds, even_rounds) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_EVEN_ROUNDS_HPP
