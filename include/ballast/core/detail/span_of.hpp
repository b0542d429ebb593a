// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_SPAN_OF_HPP
#define BALLAST_CORE_DETAIL_SPAN_OF_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The elements of a vector, as std::span(items) has them.
///
/// Whoever includes ballast pays for its templates: to learn that a vector is a contiguous range,
/// std::span asks for 170 more of each type of element than where it is given a pointer and a size.
template <class T>
[[nodiscard]] constexpr std::span<T> span_of(std::vector<T>& items) noexcept
{
  return {items.data(), items.size()};
}

template <class T>
[[nodiscard]] constexpr std::span<T const> span_of(std::vector<T> const& items) noexcept
{
  return {items.data(), items.size()};
}

/// So many of them, from `first` on.
///
/// Expects     first + count <= items.size().
template <class T>
[[nodiscard]] constexpr std::span<T> span_of(std::vector<T>& items, std::size_t first,
                                             std::size_t count) noexcept
{
  return {items.data() + first, count};
}

template <class T>
[[nodiscard]] constexpr std::span<T const> span_of(std::vector<T> const& items, std::size_t first,
                                                   std::size_t count) noexcept
{
  return {items.data() + first, count};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_SPAN_OF_HPP
