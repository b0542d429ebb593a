// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_INSERT_ORDERED_HPP
#define BALLAST_CORE_DETAIL_INSERT_ORDERED_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Puts an item into a list that is in order, behind those that are equal to it.
///
/// Expects     before(a, b) is a strict weak order, and no item is before one in front of it.
/// Ensures     (1) no item is before one in front of it
/// Complexity  O(n).
template <class T, class Before>
constexpr void insert_ordered(std::vector<T>& items, T item, Before before)
{
  items.push_back(std::move(item));
  for (std::size_t at = items.size() - 1; at > 0 && before(items[at], items[at - 1]); --at) {
    std::swap(items[at], items[at - 1]);
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_INSERT_ORDERED_HPP
