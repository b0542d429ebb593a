// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_LONG_ROUNDS_HPP
#define BALLAST_RUNTIME_DATA_LONG_ROUNDS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/runtime/data/window_problem.hpp>
#include <ballast/runtime/detail/data/window_room.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// Gathers long samples in few steps of a window: the heaviest units train as early as they may,
/// all of them in the first step where there is room. A sample that outweighs what a rank has to do
/// otherwise then makes one step long, in which others as long run beside it, in place of a step
/// each.
///
/// Ensures     (1) what window_policy promises
///             (2) from heaviest to lightest, each unit trains in the first step where it leaves all
///                 lighter ones a place in time
///             (3) with equal counts and held_back of all steps, no other choice has a smaller sum
///                 over the steps of the heaviest unit
/// Complexity  O(n (log n + steps^2)).
/// Source      (3): in order of cost, groups of equal size have the least sum of maxima, because
///             the k-th largest maximum is at least the heaviest unit after k full groups. Gathering
///             long responses of reinforcement learning in few rounds is common practice.
struct long_rounds {
  void operator()(window_problem const& problem, std::span<cost_units> loads,
                  std::span<std::uint32_t> step) const
  {
    detail::window_room room(problem);
    for (std::uint32_t const unit : detail::heaviest_units(problem)) {
      std::size_t const arrived = problem.arrived[unit];
      std::size_t first = 0;
      while (!room.fits(arrived, first)) { ++first; }
      room.place(arrived, first);
      step[unit] = static_cast<std::uint32_t>(first);
      loads[first] += problem.costs[unit];
    }
  }

  friend bool operator==(long_rounds, long_rounds) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_LONG_ROUNDS_HPP
