// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_REPLACE_FRONT_HPP
#define BALLAST_CORE_DETAIL_REPLACE_FRONT_HPP

#include <ballast/core/config.hpp>

#include <cstddef>

namespace ballast::inline v0::detail {

/// Puts another item in the place of the least one of a binary heap, a span: O(log n).
///
/// The hole in front first sinks to the bottom, and the item rises from there. Greedy policies make
/// the lightest bag one of the heaviest, so it seldom rises, and sinking has no branch that depends
/// on loads (R. W. Floyd's variant of heapsort's sift).
template <class Heap>
void replace_front(Heap heap, typename Heap::value_type item) noexcept
{
  std::size_t hole = 0;
  for (std::size_t child = 1; child + 1 < heap.size(); child = 2 * hole + 1) {
    child += heap[child + 1] < heap[child] ? 1U : 0U;
    heap[hole] = heap[child];
    hole = child;
  }
  if (2 * hole + 1 < heap.size()) {  // a last child without a sibling
    heap[hole] = heap[2 * hole + 1];
    hole = 2 * hole + 1;
  }
  while (hole > 0 && item < heap[(hole - 1) / 2]) {
    heap[hole] = heap[(hole - 1) / 2];
    hole = (hole - 1) / 2;
  }
  heap[hole] = item;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_REPLACE_FRONT_HPP
