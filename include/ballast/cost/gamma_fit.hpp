// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_GAMMA_FIT_HPP
#define BALLAST_COST_GAMMA_FIT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>

namespace ballast::inline v0 {

/// seconds of a call = seconds_per_call + seconds_per_flop * (linear l + gamma * quadratic l^2),
/// and how well that describes what was measured, outliers included.
///
/// A call launches its kernels once, whatever it works on: where samples are packed,
/// `seconds_per_call` is per pack, and only the rest is added up over the samples.
struct gamma_fit {
  double seconds_per_flop = 0;
  double gamma = 0;
  double seconds_per_call = 0;
  double median_relative_error = 0;   ///< of |fitted - measured| / measured
  double rms_relative_error = 0;      ///< root of the mean square of the same
  double largest_relative_error = 0;  ///< the same where it is largest
  double r_squared = 0;               ///< 1 - squared errors / variance, in seconds; 1 is perfect

  friend bool operator==(gamma_fit const&, gamma_fit const&) = default;
};

/// The fitted time of one call on one sample, in floating point: for reports.
///
/// Expects     0 <= length <= longest_sample.
[[nodiscard]] inline double fitted_seconds(gamma_fit const& fit, flop_polynomial flops,
                                           tokens length)
{
  BALLAST_EXPECTS(0 <= length && length <= longest_sample, "the time of a sample of ", length,
                  " tokens was asked for; lengths are from 0 to ", longest_sample);
  auto const l = static_cast<double>(length);
  return fit.seconds_per_call +
         fit.seconds_per_flop * (static_cast<double>(flops.linear) * l +
                                 fit.gamma * static_cast<double>(flops.quadratic) * l * l);
}

/// The fitted latency as a cost model, for any polynomial of the same module: one layer or all.
///
/// It is the work of a sample, without `seconds_per_call`: that is added once to every call, which
/// may be of many samples, and is the same on every GPU that makes as many calls.
///
/// Units       picoseconds: one cost unit is 1e-12 s, and costs reach 106 days.
/// Ensures     (1) the cost is within 1/2 + l^2 2^(3 - fraction_bits) ps of the formula, or it is
///                 no_cost
/// Errors      out_of_range, position 0: a number of the fit is not finite, seconds_per_flop is not
///             positive, gamma is negative, or a token takes 2^64 ps or more.
/// Complexity  O(1).
[[nodiscard]] inline result<quadratic_cost> latency_cost(gamma_fit const& fit,
                                                         flop_polynomial flops)
{
  auto const seconds_per_flop = detail::scaled_number::from(fit.seconds_per_flop);
  auto const gamma = detail::scaled_number::from(fit.gamma);
  if (!seconds_per_flop || *seconds_per_flop == detail::scaled_number() || !gamma) {
    return fail(error_code::out_of_range, 0,
                "a fit needs finite seconds_per_flop above 0 and finite gamma of at least 0; check "
                "where these numbers were saved");
  }
  detail::scaled_number const ps_per_flop =
      *seconds_per_flop * detail::scaled_number(1'000'000'000'000);
  auto const cost = detail::quantise(ps_per_flop * detail::scaled_number(flops.linear),
                                     ps_per_flop * *gamma * detail::scaled_number(flops.quadratic));
  if (!cost) {
    return fail(error_code::out_of_range, 0,
                "one token takes 2^64 picoseconds or more; check the unit of seconds_per_flop");
  }
  return *cost;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_GAMMA_FIT_HPP
