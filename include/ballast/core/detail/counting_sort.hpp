// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_COUNTING_SORT_HPP
#define BALLAST_CORE_DETAIL_COUNTING_SORT_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// Makes offsets of counts, and calls `place(index, position)` for every index below `items`: the
/// positions of one key follow each other, in the order of the indices, and those of key 0 come
/// first. It is how compressed sparse rows are filled.
///
/// Shapes      offsets[keys + 1]; in: offsets[k + 1] is how many items have key k, offsets[0] is 0.
/// Expects     key_of(index) < keys, as often as the counts say.
/// Ensures     (1) offsets[k] is the first position of key k, offsets[keys] the number of items
///             (2) place is called in the order of the indices, with every position once
/// Complexity  O(items + keys).
template <class KeyOf, class Place>
constexpr void counting_sort(std::span<std::size_t> offsets, std::size_t items, KeyOf key_of,
                             Place place)
{
  std::size_t const keys = offsets.size() - 1;
  for (std::size_t key = 0; key < keys; ++key) { offsets[key + 1] += offsets[key]; }
  // Each key's offset serves as its next position, which leaves it one key further on.
  for (std::size_t index = 0; index < items; ++index) { place(index, offsets[key_of(index)]++); }
  for (std::size_t key = keys; key > 0; --key) { offsets[key] = offsets[key - 1]; }
  offsets[0] = 0;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_COUNTING_SORT_HPP
