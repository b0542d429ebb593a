// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_QUANTITIES_HPP
#define BALLAST_CORE_QUANTITIES_HPP

#include <ballast/core/config.hpp>

#include <cstdint>
#include <limits>

namespace ballast::inline v0 {

/// A length, in tokens of whatever the model calls a token. Never negative in valid data.
using tokens = std::int64_t;

/// An integer amount of work, on which plans are decided. The cost model says what one unit is (a
/// power of two of FLOP, or a picosecond); all costs of one plan share it.
using cost_units = std::int64_t;

/// A time in whole units, for example nanoseconds; all times of one pipeline share the unit.
using time_units = std::int64_t;

/// The longest sample a cost model prices: its square still fits 64 bits.
inline constexpr tokens longest_sample = (tokens{1} << 31) - 1;

/// What a cost model returns for a sample without a cost: its length is below 0 or above
/// longest_sample, or its cost does not fit. Lengths come from outside the process, so this breaks
/// no precondition; `partition` and the like refuse the sample by its number.
inline constexpr cost_units no_cost = std::numeric_limits<cost_units>::max();

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_QUANTITIES_HPP
