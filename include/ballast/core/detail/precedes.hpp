// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_PRECEDES_HPP
#define BALLAST_CORE_DETAIL_PRECEDES_HPP

#include <ballast/core/config.hpp>

namespace ballast::inline v0::detail {

/// Whether `a` comes before `b`, or, where they are equal, the next pair's first before its second:
/// the order of tuples, which take the compiler longer to compare.
template <class T, class... More>
[[nodiscard]] constexpr bool precedes(T const& a, T const& b, More const&... more)
{
  static_assert(sizeof...(more) % 2 == 0, "give pairs of values to compare");
  if constexpr (sizeof...(more) == 0) {
    return a < b;
  } else {
    return a < b || (a == b && precedes(more...));
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_PRECEDES_HPP
