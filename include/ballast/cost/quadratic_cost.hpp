// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_QUADRATIC_COST_HPP
#define BALLAST_COST_QUADRATIC_COST_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace ballast::inline v0 {

/// The cost of a sample in a transformer: a part per token and a part per pair of tokens.
///
/// The coefficients are fixed-point numbers, so that every rank, compiler, flag and device computes
/// the same cost to the bit. `gamma_corrected` and `latency_cost` compute them. Without fraction
/// bits they are plain integers: under `quadratic_cost{1}` a sample costs its number of tokens.
///
/// Units       linear and quadratic count 2^-fraction_bits units, per token and per token^2.
/// Expects     fraction_bits <= 127.
/// Ensures     (1) (linear l + quadratic l^2) / 2^fraction_bits, rounded to nearest, halves up
///             (2) no_cost where l < 0 or l > longest_sample, or where (1) is not below no_cost
///             (3) a longer sample never costs less
/// Complexity  O(1), without division or branch on the coefficients.
struct quadratic_cost {
  std::uint64_t linear = 0;
  std::uint64_t quadratic = 0;
  std::uint32_t fraction_bits = 0;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(tokens length) const
  {
    if (length < 0 || length > longest_sample) { return no_cost; }
    auto const l = static_cast<std::uint64_t>(length);
    return of(l, l * l);
  }

  /// The cost of so many tokens, of which so many pairs attend to each other.
  ///
  /// Expects     fewer than 2^31 tokens, and at most 2^62 pairs.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units of(std::uint64_t tokens_in_all,
                                                            std::uint64_t pairs) const
  {
    BALLAST_EXPECTS(fraction_bits <= 127, "a quadratic_cost has ", fraction_bits,
                    " fraction bits, and the most is 127");
    // Below 2^95 + 2^126, which leaves room to add the half, at most 2^126.
    uint128 const work =
        static_cast<uint128>(linear) * tokens_in_all + static_cast<uint128>(quadratic) * pairs;
    uint128 const half = (uint128{1} << fraction_bits) >> 1;
    uint128 const cost = (work + half) >> fraction_bits;
    return cost < static_cast<uint128>(no_cost) ? static_cast<cost_units>(cost) : no_cost;
  }

  /// What of the cost is attention, for batches that pad this part alone: the part per token^2. It
  /// is rounded like the cost and never above it.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units attention_part(tokens length) const
  {
    return quadratic_cost{0, quadratic, fraction_bits}(length);
  }

  friend bool operator==(quadratic_cost const&, quadratic_cost const&) = default;
};

static_assert(std::is_trivially_copyable_v<quadratic_cost>);  // kernels take it by value

namespace detail {

/// A cost model from its coefficients, with as many fraction bits as they leave room for.
///
/// Units       cost units per token, cost units per token^2.
/// Ensures     (1) each coefficient of the result is the nearest multiple of 2^-fraction_bits
///             (2) fraction_bits = 62 - floor(log2 of the larger coefficient), but from 0 to 127
///             (3) nothing where a coefficient is 2^64 units or more
/// Complexity  O(1).
[[nodiscard]] constexpr std::optional<quadratic_cost> quantise(scaled_number per_token,
                                                               scaled_number per_token_squared)
{
  int const magnitude = std::max(per_token.floor_log2(), per_token_squared.floor_log2());
  int const fraction_bits = std::clamp(62 - magnitude, 0, 127);
  auto const linear = per_token.shifted(fraction_bits).rounded();
  auto const quadratic = per_token_squared.shifted(fraction_bits).rounded();
  if (!linear || !quadratic) { return std::nullopt; }
  return quadratic_cost{.linear = *linear,
                        .quadratic = *quadratic,
                        .fraction_bits = static_cast<std::uint32_t>(fraction_bits)};
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_QUADRATIC_COST_HPP
