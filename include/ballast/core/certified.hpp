// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_CERTIFIED_HPP
#define BALLAST_CORE_CERTIFIED_HPP

#include <ballast/core/ratio.hpp>

namespace ballast::inline v0 {

/// What all plans share that say how good they are: when the last one finishes, and before when no
/// plan does.
///
/// Units       those of the plan; Value is an integer, or a ratio where loads are divided by
///             speeds.
/// Expects     lower_bound <= makespan.
template <class Value>
struct certified {
  Value makespan{};
  Value lower_bound{};

  /// How far the plan can be from the best one: makespan / lower_bound - 1; 0 where there is no
  /// work.
  [[nodiscard]] constexpr double gap() const noexcept
  {
    return gap_above(ratio{makespan}, ratio{lower_bound});
  }

  /// Whether no plan is better.
  [[nodiscard]] constexpr bool proven_optimal() const noexcept { return makespan == lower_bound; }

  /// Whether no plan is better by more than this share. Costs are rounded to whole units and fitted
  /// to measurements, so a gap below their resolution says nothing about time.
  [[nodiscard]] constexpr bool proven_within(double share) const noexcept { return gap() <= share; }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_CERTIFIED_HPP
