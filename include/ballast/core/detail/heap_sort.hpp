// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_HEAP_SORT_HPP
#define BALLAST_CORE_DETAIL_HEAP_SORT_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <utility>

namespace ballast::inline v0::detail {

/// Sorts items in place: for lists that are short, or sorted once in a search.
///
/// Whoever includes ballast pays for its templates. For each kind of item, std::sort asks for about
/// 90 of them and this for two.
///
/// Expects     before(a, b) is a strict weak order. Give a total one: equal items end in any order.
/// Ensures     (1) no item is before one in front of it
/// Complexity  O(n log n).
/// Source      J. W. J. Williams, "Algorithm 232: Heapsort", Communications of the ACM 7, 1964;
///             R. W. Floyd, "Algorithm 245: Treesort 3", Communications of the ACM 7, 1964.
template <class Items, class Before>
constexpr void heap_sort(Items& items, Before before)
{
  std::size_t end = items.size();
  std::size_t start = end / 2;  // from here on, below `end`, no item is before one under it
  while (end > 1) {
    auto moved = std::move(items[start > 0 ? start - 1 : end - 1]);
    if (start > 0) {
      --start;
    } else {
      items[--end] = std::move(items[0]);
    }
    std::size_t hole = start;
    for (std::size_t child = 2 * hole + 1; child < end; child = 2 * hole + 1) {
      if (child + 1 < end && before(items[child], items[child + 1])) { ++child; }
      if (!before(moved, items[child])) { break; }
      items[hole] = std::move(items[child]);
      hole = child;
    }
    items[hole] = std::move(moved);
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_HEAP_SORT_HPP
