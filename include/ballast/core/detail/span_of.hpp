// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_SPAN_OF_HPP
#define BALLAST_CORE_DETAIL_SPAN_OF_HPP

#include <ballast/core/config.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// The elements of a vector or an array to read; the second one: `count` of them, from `first` on.
///
/// Whoever includes ballast pays for its templates. To learn that a vector is a contiguous range,
/// std::span asks for 170 more of each type of element than where it is given a pointer and a size.
///
/// Expects     first + count <= items.size().
template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type const> span_of(
    Items const& items) noexcept
{
  return {items.data(), items.size()};
}

template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type const> span_of(
    Items const& items, std::size_t first, std::size_t count) noexcept
{
  return {items.data() + first, count};
}

/// The same elements to change. A span of these is another type, so it costs as many templates
/// again.
template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type> mutable_span_of(Items& items) noexcept
{
  return {items.data(), items.size()};
}

template <class Items>
[[nodiscard]] constexpr std::span<typename Items::value_type> mutable_span_of(
    Items& items, std::size_t first, std::size_t count) noexcept
{
  return {items.data() + first, count};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_SPAN_OF_HPP
