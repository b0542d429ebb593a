// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_WORDS_HPP
#define BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_WORDS_HPP

#include <ballast/core/digest.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/vectors/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Adds the costs and the loads of a plan to its digest, and how many there are.
template <std::size_t D>
void add_vectors(digest& words, std::span<cost_vector<D> const> costs,
                 std::span<cost_vector<D> const> loads) noexcept
{
  words.add(std::uint64_t{D});
  for (cost_vector<D> const& cost : costs) { words.add(std::span<cost_units const>(cost)); }
  words.add(static_cast<std::uint64_t>(loads.size()));
  for (cost_vector<D> const& load : loads) { words.add(std::span<cost_units const>(load)); }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_VECTORS_DETAIL_VECTOR_WORDS_HPP
