// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_SHAPE_BUCKET_HPP
#define BALLAST_RUNTIME_SHAPE_BUCKET_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>

#include <bit>
#include <cstdint>

namespace ballast::inline v0 {

/// How many buckets the sizes of one module fall into.
inline constexpr std::uint32_t shape_buckets = 864;

/// What a corrected cost is multiplied with and then shifted by: a factor of 2^16 changes nothing.
inline constexpr std::uint32_t unchanged_factor = std::uint32_t{1} << 16;

/// The bucket of a sample's size in a module: sizes below 64 have one each, and each octave from
/// there on has 32, so that sizes of one bucket differ by a thirty-second part at most.
///
/// Expects     0 <= size <= longest_sample.
/// Ensures     (1) a larger size has no lower bucket
///             (2) the bucket is below shape_buckets
/// Complexity  O(1).
[[nodiscard]] constexpr std::uint32_t shape_bucket(tokens size)
{
  BALLAST_EXPECTS(size >= 0 && size <= longest_sample, "a sample of size ", size,
                  " has no shape; sizes are from 0 to ", longest_sample);
  auto const bits = static_cast<std::uint32_t>(size);
  if (bits < 64) { return bits; }
  auto const octave = static_cast<std::uint32_t>(std::bit_width(bits));  // from 7 to 31
  return (octave - 5) * 32 + ((bits >> (octave - 6)) & 31U);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_SHAPE_BUCKET_HPP
