// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_DATA_WINDOWS_HPP
#define BALLAST_RUNTIME_DATA_DATA_WINDOWS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/runtime/data/long_rounds.hpp>
#include <ballast/runtime/data/window_problem.hpp>

#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// The cost of a sample by which windows are planned, where nobody says otherwise.
struct total_length {
  cost_units operator()(std::span<tokens const> lengths) const
  {
    return std::accumulate(lengths.begin(), lengths.end(), cost_units{0});
  }
};

/// Plans over several steps: which samples of a window train in which of its steps. With one step,
/// the default, samples train in the order in which they are dealt.
///
///     data_windows{.steps = 8, .held_back = 4, .policy = long_rounds{}, .cost = cost_of_lengths}
///
/// An epoch has the same samples as without windows, and the same number of steps; a window does
/// not reach into the next epoch. The gradients of a single step change: they are those of other
/// samples, chosen by their length. Where training minds that, take small windows.
template <window_policy Policy = long_rounds, std::copy_constructible Cost = total_length>
  requires std::is_invocable_r_v<cost_units, Cost const&, std::span<tokens const>>
struct data_windows {
  std::size_t steps = 1;
  /// For how many of these steps a sample may be held back at most.
  std::size_t held_back = 0;
  Policy policy = {};
  Cost cost = {};
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_DATA_WINDOWS_HPP
