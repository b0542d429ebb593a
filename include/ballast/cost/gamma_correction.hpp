// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_GAMMA_CORRECTION_HPP
#define BALLAST_COST_GAMMA_CORRECTION_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <algorithm>
#include <concepts>
#include <optional>

namespace ballast::inline v0 {

/// A cost model and what its unit stands for: 2^log2_flops_per_unit FLOP at the speed of the
/// products with weights.
struct priced {
  quadratic_cost cost;
  int log2_flops_per_unit = 0;

  friend bool operator==(priced const&, priced const&) = default;
};

namespace detail {

/// The cost in units of 2^log2_flops_per_unit FLOP, where it can be represented. A gamma without a
/// value is none that a cost can have.
[[nodiscard]] constexpr std::optional<quadratic_cost> correct(flop_polynomial forward,
                                                              std::optional<scaled_number> gamma,
                                                              int log2_flops_per_unit)
{
  if (!gamma) { return std::nullopt; }
  return quantise(scaled_number(forward.linear).shifted(-log2_flops_per_unit),
                  (*gamma * scaled_number(forward.quadratic)).shifted(-log2_flops_per_unit));
}

/// The unit in which the larger of a token's two terms is in [2^11, 2^12), if not too fine.
[[nodiscard]] constexpr int suitable_unit(flop_polynomial forward,
                                          std::optional<scaled_number> gamma)
{
  scaled_number const factor = gamma.value_or(scaled_number());
  int const log2_flops = std::max(scaled_number(forward.linear).floor_log2(),
                                  (factor * scaled_number(forward.quadratic)).floor_log2());
  return std::clamp(log2_flops - 11, -11, 64);
}

// Not constexpr, so that reaching one at compile time is an error that shows its name.
inline void a_dimension_of_a_transformer_is_at_least_1() {}
inline void heads_are_a_multiple_of_kv_heads() {}
inline void gamma_is_finite_and_not_negative() {}
inline void the_flop_per_token_fit_64_bits() {}

}  // namespace detail

/// Latency up to a constant factor: linear l + gamma quadratic l^2, since a FLOP of attention takes
/// gamma times as long as one of the products with weights. The caller chooses the unit.
///
/// Costs that are added up need one unit: price the largest model with the function below, then the
/// others with its unit. They add up only where the weight products of all run equally fast; else
/// fit each model and use `latency_cost`.
///
/// Units       2^log2_flops_per_unit FLOP.
/// Expects     -64 <= log2_flops_per_unit <= 64.
/// Ensures     (1) the cost is within 1/2 + l^2 2^(1 - fraction_bits) units of the formula, or
///                 no_cost
/// Errors      out_of_range, position 0: gamma is negative, infinite or NaN, or a token costs 2^64
///             units or more.
/// Complexity  O(1).
/// Source      K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
///             Transformers Training", arXiv:2508.06001, 2025.
[[nodiscard]] inline result<quadratic_cost> gamma_corrected(flop_polynomial forward, double gamma,
                                                            int log2_flops_per_unit)
{
  BALLAST_EXPECTS(-64 <= log2_flops_per_unit && log2_flops_per_unit <= 64,
                  "log2_flops_per_unit is ", log2_flops_per_unit, ", which is not from -64 to 64");
  auto const factor = detail::scaled_number::from(gamma);
  if (!factor) {
    return fail(error_code::out_of_range, 0,
                "gamma is negative or not finite; give how many times as long as other FLOP those "
                "of attention take, such as 0.4");
  }
  auto const cost = detail::correct(forward, factor, log2_flops_per_unit);
  if (!cost) {
    return fail(error_code::out_of_range, 0,
                "one token costs 2^64 units or more; choose a larger unit or a smaller gamma");
  }
  return *cost;
}

/// The same in a unit that suits the model.
///
/// Ensures     (1) the larger of a token's two terms is in [2^11, 2^12) units, so that rounding
///                 moves no cost by more than a 4096th part, and 51 fraction bits remain
///             (2) where those terms are below one FLOP, the unit is 2^-11 FLOP instead
[[nodiscard]] inline result<priced> gamma_corrected(flop_polynomial forward, double gamma)
{
  int const unit = detail::suitable_unit(forward, detail::scaled_number::from(gamma));
  return gamma_corrected(forward, gamma, unit).map([unit](quadratic_cost cost) {
    return priced{.cost = cost, .log2_flops_per_unit = unit};
  });
}

/// The same for a model that is written in the program: what is wrong with it is a compile error.
///
///     constexpr auto cost = gamma_corrected(classic_transformer(3072), 0.405);
///
/// Ensures     (1) the cost is that of the functions above
template <std::same_as<transformer_shape> Shape>  // braces alone are a flop_polynomial
[[nodiscard]] consteval quadratic_cost gamma_corrected(Shape shape, double gamma)
{
  detail::shape_fault const fault = detail::check_shape(shape).fault;
  if (fault == detail::shape_fault::zero_dimension) {
    detail::a_dimension_of_a_transformer_is_at_least_1();
  }
  if (fault == detail::shape_fault::unequal_head_groups) {
    detail::heads_are_a_multiple_of_kv_heads();
  }
  auto const factor = detail::scaled_number::from(gamma);
  if (!factor) { detail::gamma_is_finite_and_not_negative(); }
  auto const forward = detail::count_flops(shape);
  if (!forward) { detail::the_flop_per_token_fit_64_bits(); }
  auto const cost = detail::correct(*forward, factor, detail::suitable_unit(*forward, factor));
  if (!cost) { detail::the_flop_per_token_fit_64_bits(); }
  return *cost;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_GAMMA_CORRECTION_HPP
