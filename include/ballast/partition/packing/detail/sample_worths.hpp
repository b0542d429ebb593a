// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_SAMPLE_WORTHS_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_SAMPLE_WORTHS_HPP

#include <ballast/core/contract.hpp>

#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// What samples are worth, so that no bin holds more than `bin` together: their weights and the
/// capacity, or prices of a linear program. A packing that could do with a bin less has bins that
/// lack worth, and not just room: where two samples of .45 share a bin, nothing better is in reach.
struct sample_worths {
  std::span<std::int64_t> of;
  std::int64_t bin;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_SAMPLE_WORTHS_HPP
