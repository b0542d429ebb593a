// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_HEAD_ARRAY_HPP
#define BALLAST_ROUTE_HEAD_ARRAY_HPP

#include <ballast/core/contract.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// The heads of an array [rows][heads][dim]: how many a token has, and how many bytes each is.
struct head_shape {
  std::uint32_t heads = 1;
  std::size_t head_bytes = 0;
};

/// An array with heads, before and after an exchange: queries, keys, values, attention output, or a
/// gradient of one of them.
struct head_array {
  std::span<std::byte const> from;
  std::span<std::byte> to;
  head_shape shape;
  /// Adds the elements in `values` to those in `sums`; null where elements cannot be added.
  void (*add)(std::byte* sums, std::byte const* values, std::size_t bytes) = nullptr;
};

namespace detail {

template <class T>
concept addable = std::default_initializable<T> &&
                  requires(T const& sum, T const& value) { static_cast<T>(sum + value); };

/// `sums` are elements; `values` are bytes of elements, which lie in a message as they come.
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

/// An array of `heads` heads of `dim` elements a token.
///
/// Shapes      between attentions [rows(gpu)][heads][dim], in attention [rows()][share][dim]; the
///             exchange says which of the two is `from`.
/// Expects     dim >= 1; the two do not overlap, except in a bag of one.
template <class T>
  requires(std::is_trivially_copyable_v<T>)
[[nodiscard]] head_array heads_of(std::span<T const> from, std::span<std::type_identity_t<T>> to,
                                  std::uint32_t heads, std::size_t dim)
{
  BALLAST_EXPECTS(dim >= 1);
  head_array array{std::as_bytes(from), std::as_writable_bytes(to), {heads, dim * sizeof(T)}};
  if constexpr (detail::addable<T>) { array.add = detail::add_elements<T>; }
  return array;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_HEAD_ARRAY_HPP
