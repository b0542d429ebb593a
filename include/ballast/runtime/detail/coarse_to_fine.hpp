// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_COARSE_TO_FINE_HPP
#define BALLAST_RUNTIME_DETAIL_COARSE_TO_FINE_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
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
  std::vector<std::size_t> ends;  // of the gaps between two that are in the order, in turn
  auto const add_gap = [&ends](std::size_t first, std::size_t last) {
    if (last - first < 2) { return; }
    ends.push_back(first);
    ends.push_back(last);
  };
  if (count > 2) { add_gap(0, count - 1); }
  for (std::size_t at = 0; at < ends.size(); at += 2) {
    std::size_t const first = ends[at];
    std::size_t const last = ends[at + 1];
    std::size_t const middle = first + (last - first) / 2;
    order.push_back(middle);
    add_gap(first, middle);
    add_gap(middle, last);
  }
  return order;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_COARSE_TO_FINE_HPP
