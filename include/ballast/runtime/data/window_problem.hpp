// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_WINDOW_PROBLEM_HPP
#define BALLAST_RUNTIME_DATA_WINDOW_PROBLEM_HPP

#include <ballast/core/quantities.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// What a window policy sees: units (samples, or groups that stay together) of one size, which may
/// change places between the steps of a window. Each unit has arrived in a step, and trains in a
/// step: in an earlier one, or in one that is at most held_back later. As many train in a step as
/// have arrived in it.
///
/// Shapes      costs[n], arrived[n], which does not decrease and is below steps.
struct window_problem {
  std::span<cost_units const> costs;
  std::span<std::uint32_t const> arrived;
  std::size_t steps = 1;
  std::size_t held_back = 0;
};

/// Says in which step each unit of a window trains.
///
///   policy(problem, loads, step)   writes step[n]; loads[steps] has the work that each step has
///                                  already (units of other sizes), and grows by what is added
///
/// Ensures     every step trains as many units as have arrived in it, none more than held_back
///             after its arrival; the same steps from the same problem, everywhere. A data pipeline
///             refuses other answers.
template <class P>
concept window_policy = std::copy_constructible<P> &&
                        requires(P const& policy, window_problem const& problem,
                                 std::span<cost_units> loads, std::span<std::uint32_t> step) {
                          { policy(problem, loads, step) } -> std::same_as<void>;
                        };

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_WINDOW_PROBLEM_HPP
