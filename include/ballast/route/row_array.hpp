// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ROW_ARRAY_HPP
#define BALLAST_ROUTE_ROW_ARRAY_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/units.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

/// An array with a row per token, before and after a route: activations, tags, positions.
///
/// Rows are moved as bytes: whatever their type, they arrive as they left.
struct row_array {
  std::span<std::byte const> from;
  std::span<std::byte> to;
  std::size_t row_bytes = 0;
};

/// Arrays of `width` elements a token.
///
/// Shapes      from[rows before][width], to[rows after][width].
/// Expects     width >= 1; they do not overlap.
template <class T>
  requires(std::is_trivially_copyable_v<T>)
[[nodiscard]] row_array rows_of(std::span<T const> from, std::span<std::type_identity_t<T>> to,
                                std::size_t width = 1)
{
  BALLAST_EXPECTS(width >= 1);
  return {std::as_bytes(from), std::as_writable_bytes(to), width * sizeof(T)};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ROW_ARRAY_HPP
