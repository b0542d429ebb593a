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

/// The longest sample a cost model prices: its square still fits 64 bits.
inline constexpr tokens longest_sample = (tokens{1} << 31) - 1;

/// What a cost model answers where the true cost does not fit. It is no cost: front doors refuse it
/// with the sample's number, since a wrapped or clamped cost would make a wrong plan look balanced.
inline constexpr cost_units cost_overflow = std::numeric_limits<cost_units>::max();

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_UNITS_HPP
