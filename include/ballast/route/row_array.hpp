// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ROW_ARRAY_HPP
#define BALLAST_ROUTE_ROW_ARRAY_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/random.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// An array with a row per token, before and after a route: activations, tags, positions.
///
/// Rows are moved as bytes, whatever their type.
struct row_array {
  std::span<std::byte const> from;
  std::span<std::byte> to;
  std::size_t row_bytes = 0;
  std::size_t element_bytes = 0;  ///< which ranks compare; 0 says nothing
};

/// Contiguous elements of one type that can be moved as bytes, before and after an exchange:
/// vectors, spans, arrays, but no temporaries that own their elements.
template <class From, class To>
concept movable_elements =
    std::ranges::contiguous_range<From> && std::ranges::sized_range<From> &&
    std::ranges::borrowed_range<From> && std::ranges::contiguous_range<To> &&
    std::ranges::sized_range<To> && std::ranges::borrowed_range<To> &&
    std::same_as<std::ranges::range_value_t<From>, std::ranges::range_value_t<To>> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<To>>> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<To>>;

/// Makes a row_array of `width` elements per token: rows_of(x, x_there, 3072).
///
/// Shapes      from[rows before][width], to[rows after][width].
/// Expects     width >= 1; they do not overlap.
template <class From, class To>
  requires movable_elements<From const&, To>
[[nodiscard]] row_array rows_of(From const& from, To&& to, std::size_t width = 1)
{
  BALLAST_EXPECTS(width >= 1, "an array has rows of ", detail::counted(width, "element"));
  std::span const source(from);
  std::span const target(to);
  constexpr std::size_t element = sizeof(std::ranges::range_value_t<To>);
  return {std::as_bytes(source), std::as_writable_bytes(target), width * element, element};
}

namespace detail {

/// A word of how many arrays there are and how wide: the same on every rank.
[[nodiscard]] inline std::uint64_t word_of(std::span<row_array const> arrays)
{
  digest all;
  for (row_array const& each : arrays) { all.add(each.row_bytes).add(each.element_bytes); }
  return all.add(arrays.size()).value();
}

[[nodiscard]] inline bool overlapping(std::span<std::byte const> one,
                                      std::span<std::byte const> other)
{
  std::less<> const before;  // orders pointers into different arrays, which < need not
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ROW_ARRAY_HPP
