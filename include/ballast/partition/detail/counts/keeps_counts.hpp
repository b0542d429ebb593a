// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_COUNTS_KEEPS_COUNTS_HPP
#define BALLAST_PARTITION_DETAIL_COUNTS_KEEPS_COUNTS_HPP

#include <ballast/core/config.hpp>

namespace ballast::inline v0::detail {

/// Whether the plans that a policy chooses among are those of some numbers of samples per bag, so
/// that swaps of as many samples for as many lead from one of them to another. A policy says so by
/// a constant member function `bool keeps_counts()`.
template <class Policy>
[[nodiscard]] constexpr bool keeps_counts(Policy const& policy)
{
  if constexpr (requires { policy.keeps_counts(); }) {
    return policy.keeps_counts();
  } else {
    return false;
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_COUNTS_KEEPS_COUNTS_HPP
