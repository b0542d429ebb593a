// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_DIVIDED_UP_HPP
#define BALLAST_PARALLELISM_DETAIL_DIVIDED_UP_HPP

#include <ballast/core/quantities.hpp>

namespace ballast::inline v0::detail {

/// The quotient, rounded up; by >= 1.
[[nodiscard]] constexpr uint128 divided_up(uint128 value, uint128 by) noexcept
{
  return value / by + (value % by != 0 ? 1 : 0);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_DIVIDED_UP_HPP
