// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_FLOPS_HPP
#define BALLAST_COST_FLOPS_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>

#include <cstdint>
#include <limits>
#include <optional>

namespace ballast::inline v0 {

/// Floating-point operations of a model as a function of sample length, in exact integers.
///
/// A multiplication and the addition after it are two operations. Only matrix products count:
/// norms, activations and softmax are less than one per cent of a transformer's, and by custom are
/// left out.
///
/// Units       linear: FLOP per token; quadratic: FLOP per token^2.
struct flop_polynomial {
  std::uint64_t linear = 0;
  std::uint64_t quadratic = 0;

  friend bool operator==(flop_polynomial const&, flop_polynomial const&) = default;
};

namespace detail {

/// Nothing where a coefficient does not fit 64 bits.
[[nodiscard]] constexpr std::optional<flop_polynomial> flops_in_64_bits(uint128 linear,
                                                                        uint128 quadratic)
{
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  if (linear > largest || quadratic > largest) { return std::nullopt; }
  return flop_polynomial{.linear = static_cast<std::uint64_t>(linear),
                         .quadratic = static_cast<std::uint64_t>(quadratic)};
}

[[nodiscard]] inline result<flop_polynomial> checked_flops(std::optional<flop_polynomial> fitting)
{
  if (!fitting) {
    return fail(error_code::out_of_range, 0,
                "the FLOP per token of this model do not fit 64 bits; check its dimensions");
  }
  return *fitting;
}

[[nodiscard]] inline result<flop_polynomial> checked_flops(uint128 linear, uint128 quadratic)
{
  return checked_flops(flops_in_64_bits(linear, quadratic));
}

}  // namespace detail

/// The FLOP of two modules that a sample passes through one after the other at the same length.
///
/// Errors      out_of_range where a coefficient does not fit 64 bits.
[[nodiscard]] inline result<flop_polynomial> add(flop_polynomial a, flop_polynomial b)
{
  return detail::checked_flops(static_cast<uint128>(a.linear) + b.linear,
                               static_cast<uint128>(a.quadratic) + b.quadratic);
}

/// The FLOP of `times` equal modules in a row.
///
/// Errors      out_of_range where a coefficient does not fit 64 bits.
[[nodiscard]] inline result<flop_polynomial> multiply(flop_polynomial module, std::uint64_t times)
{
  return detail::checked_flops(static_cast<uint128>(module.linear) * times,
                               static_cast<uint128>(module.quadratic) * times);
}

/// linear l + quadratic l^2, exactly.
///
/// Expects     0 <= length <= longest_sample, for which it always fits.
/// Complexity  O(1).
[[nodiscard]] BALLAST_HOST_DEVICE constexpr uint128 exact_flops(flop_polynomial model,
                                                                tokens length)
{
  BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "the FLOP of ", length,
                  " tokens were asked for, which is not from 0 to ", longest_sample);
  auto const l = static_cast<std::uint64_t>(length);
  std::uint64_t const squared = l * l;  // below 2^62
  return static_cast<uint128>(model.linear) * l + static_cast<uint128>(model.quadratic) * squared;
}

/// `exact_flops` as a double, for rates and reports; no plan is decided on it.
[[nodiscard]] inline double flops(flop_polynomial model, tokens length)
{
  return static_cast<double>(exact_flops(model, length));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_FLOPS_HPP
