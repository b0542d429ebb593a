// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_CHUNKING_HPP
#define BALLAST_ROUTE_CHUNKING_HPP

#include <ballast/core/contract.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// Some consecutive items of a longer run: tokens of a sequence, heads of a layer.
struct chunk {
  std::int64_t first = 0;
  std::int64_t count = 0;

  friend constexpr bool operator==(chunk, chunk) = default;
};

/// Returns chunk `index` of `length` items that are cut into `parts` consecutive chunks: how a bag
/// shares a sequence.
///
/// The first length % parts chunks have one item more than the others. GPU g of a bag gets chunk g,
/// and a bag's GPUs are consecutive ranks. So neighbours in the sequence are on neighbouring GPUs
/// of a node, and a layer that needs adjacent tokens exchanges data between neighbouring GPUs only.
///
/// Expects     length >= 0 and index < parts.
/// Ensures     (1) the chunks of all indices, in order, are all items
///             (2) their counts differ by at most one
///             (3) none is empty unless length < parts
/// Complexity  O(1).
[[nodiscard]] BALLAST_HOST_DEVICE constexpr chunk chunk_of(std::int64_t length, std::uint32_t parts,
                                                           std::uint32_t index)
{
  BALLAST_EXPECTS(length >= 0, "there are ", length, " items to split into chunks");
  BALLAST_EXPECTS(index < parts, "chunk ", index, " of ", parts);
  std::int64_t const count = length / parts;
  std::int64_t const longer = length % parts;
  bool const is_longer = index < longer;
  return {index * count + (is_longer ? index : longer), count + (is_longer ? 1 : 0)};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_CHUNKING_HPP
