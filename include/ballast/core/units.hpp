// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_UNITS_HPP
#define BALLAST_CORE_UNITS_HPP

#include <cstdint>
#include <limits>

namespace ballast::inline v0 {

/// A length, in tokens of whatever the model calls a token. Never negative in valid data.
using tokens = std::int64_t;

/// What decisions are taken on: an integer amount of work. Which amount one unit stands for is the
/// cost model's to say (a power of two of FLOP, or picoseconds); all costs of one plan share it.
using cost_units = std::int64_t;

/// A time in whole units of the caller's choice, nanoseconds say; all times of one pipeline share it.
using time_units = std::int64_t;

/// The longest sample a cost model prices: its square still fits 64 bits.
inline constexpr tokens longest_sample = (tokens{1} << 31) - 1;

/// What a cost model answers where a sample has no cost: a length below 0 or above longest_sample,
/// or a cost that does not fit. Lengths come from outside, so this is an answer and no
/// precondition; front doors refuse it with the sample's number.
inline constexpr cost_units no_cost = std::numeric_limits<cost_units>::max();

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_UNITS_HPP
