// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_MAKESPAN_HPP
#define BALLAST_PARTITION_MAKESPAN_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// When the last bag finishes: the largest load per speed.
///
/// Shapes      loads[m], speeds[m].
/// Expects     loads are not negative and speeds at least 1.
/// Complexity  O(m)
[[nodiscard]] inline ratio makespan_of(std::span<cost_units const> loads,
                                       std::span<std::uint32_t const> speeds)
{
  BALLAST_EXPECTS(loads.size() == speeds.size(), "there are loads of ",
                  detail::counted(loads.size(), "bag"), " and speeds of ", speeds.size());
  ratio makespan;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    makespan = std::max(makespan, ratio{loads[bag], speeds[bag]});
  }
  return makespan;
}

/// The same by several quantities: the largest load per speed of any bag in any dimension.
template <std::size_t D>
[[nodiscard]] ratio makespan_of(std::span<std::array<cost_units, D> const> loads,
                                std::span<std::uint32_t const> speeds)
{
  BALLAST_EXPECTS(loads.size() == speeds.size(), "there are loads of ",
                  detail::counted(loads.size(), "bag"), " and speeds of ", speeds.size());
  ratio makespan;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    cost_units const largest = *std::max_element(loads[bag].begin(), loads[bag].end());
    makespan = std::max(makespan, ratio{largest, speeds[bag]});
  }
  return makespan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_MAKESPAN_HPP
