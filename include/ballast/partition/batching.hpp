// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_BATCHING_HPP
#define BALLAST_PARTITION_BATCHING_HPP

#include <ballast/core/contract.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// How a bag computes the samples that it owns, which decides its load.
enum class batching : std::uint8_t {
  packed,  ///< one after the other: the sum of their costs
  padded,  ///< all as long as the longest: their number times the largest cost
  /// Packed but for attention: the sum of what else they cost, and their number times the largest
  /// attention part of their costs.
  attention_padded,
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_BATCHING_HPP
