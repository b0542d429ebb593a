// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_PACKING_RULES_HPP
#define BALLAST_PARTITION_PACKING_PACKING_RULES_HPP

#include <ballast/core/contract.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace ballast::inline v0 {

/// What bins have to keep to besides a capacity, as trainers pack: all but the capacity optional.
///
/// Expects     most_samples, multiple_of and length_multiple are at least 1.
struct packing_rules {
  std::int64_t capacity = 0;
  std::size_t most_samples = std::numeric_limits<std::size_t>::max();  ///< in a bin
  std::size_t least_bins = 0;
  std::size_t multiple_of = 1;       ///< bins: a number for each rank
  std::int64_t length_multiple = 1;  ///< lengths are rounded up to one of it
  bool is_padded = false;            ///< a bin takes count x longest of the capacity, not the sum
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PACKING_PACKING_RULES_HPP
