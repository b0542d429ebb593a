// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_HEAD_ARRAY_HPP
#define BALLAST_ROUTE_HEAD_ARRAY_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/random.hpp>
#include <ballast/route/row_array.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>

namespace ballast::inline v0 {

/// The heads of an array [rows][heads][dim]: how many a token has, and how many bytes each head
/// has.
struct head_shape {
  std::uint32_t heads = 1;
  std::size_t head_bytes = 0;

  friend constexpr bool operator==(head_shape const&, head_shape const&) = default;
};

/// An array with heads, before and after an exchange: queries, keys, values, attention output, or a
/// gradient of one of them.
struct head_array {
  std::span<std::byte const> from;
  std::span<std::byte> to;
  head_shape shape;
  /// Adds the elements in `values` to those in `sums`; null if elements cannot be added. heads_of
  /// leaves it null for integers, since arrays of 16-bit integers often hold bf16. Set it yourself
  /// if yours hold numbers.
  void (*add)(std::byte* sums, std::byte const* values, std::size_t bytes) = nullptr;
  std::size_t element_bytes = 0;  ///< which ranks compare; 0 says nothing
};

namespace detail {

/// A word of how many arrays there are, and of their heads: the same on every rank.
[[nodiscard]] inline std::uint64_t word_of(std::span<head_array const> arrays)
{
  digest all;
  for (head_array const& each : arrays) {
    all.add(each.shape.heads).add(each.shape.head_bytes).add(each.element_bytes);
  }
  return all.add(arrays.size()).value();
}

template <class T>
concept addable = std::default_initializable<T> && !std::integral<T> &&
                  requires(T const& sum, T const& value) { static_cast<T>(sum + value); };

/// `sums` points to elements; `values` points to bytes of elements in a message, of any alignment.
template <addable T>
void add_elements(std::byte* sums, std::byte const* values, std::size_t bytes)
{
  auto* const sum = reinterpret_cast<T*>(sums);
  for (std::size_t element = 0; element < bytes / sizeof(T); ++element) {
    T value;
    std::memcpy(&value, values + element * sizeof(T), sizeof(T));
    sum[element] = static_cast<T>(sum[element] + value);
  }
}

}  // namespace detail

/// Makes a head_array of `heads` heads per token with `dim` elements each:
/// heads_of(q, q_whole, 32, 128).
///
/// Shapes      between attentions [rows(gpu)][heads][dim], in attention [rows()][share][dim]: from
///             and to, or to and from, as the exchange says.
/// Expects     dim >= 1; the two do not overlap, except in a bag of one.
template <class From, class To>
  requires movable_elements<From const&, To>
[[nodiscard]] head_array heads_of(From const& from, To&& to, std::uint32_t heads, std::size_t dim)
{
  BALLAST_EXPECTS(dim >= 1, "an array has heads of ", detail::counted(dim, "element"));
  using T = std::ranges::range_value_t<To>;
  std::span const source(from);
  std::span const target(to);
  head_array array{std::as_bytes(source), std::as_writable_bytes(target), {heads, dim * sizeof(T)}};
  if constexpr (detail::addable<T>) { array.add = detail::add_elements<T>; }
  array.element_bytes = sizeof(T);
  return array;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_HEAD_ARRAY_HPP
