// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_COARSE_TO_FINE_HPP
#define BALLAST_RUNTIME_DETAIL_COARSE_TO_FINE_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The numbers from 0 to count - 1: both ends first, then the middle of each gap that is left.
///
/// Complexity  O(count).
[[nodiscard]] inline std::vector<std::size_t> coarse_to_fine(std::size_t count)
{
  std::vector<std::size_t> order;
  if (count > 0) { order.push_back(0); }
  if (count > 1) { order.push_back(count - 1); }
  std::vector<std::pair<std::size_t, std::size_t>> gaps;  // between two that are in the order
  if (count > 2) { gaps.emplace_back(0, count - 1); }
  for (std::size_t at = 0; at < gaps.size(); ++at) {
    auto const [first, last] = gaps[at];
    std::size_t const middle = first + (last - first) / 2;
    order.push_back(middle);
    if (middle - first > 1) { gaps.emplace_back(first, middle); }
    if (last - middle > 1) { gaps.emplace_back(middle, last); }
  }
  return order;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_COARSE_TO_FINE_HPP
