// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_LATENCY_FIT_HPP
#define BALLAST_COST_LATENCY_FIT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/cost/detail/quantise.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ballast::inline v0 {

/// How long a module took for one sample.
struct latency_measurement {
  tokens length = 0;
  double seconds = 0;
};

/// Which errors a fit makes small: absolute ones in seconds, or relative ones, as parts of the
/// measured times. With relative errors short samples count as much as long ones, which suits noise
/// that grows with the time.
enum class fit_error : std::uint8_t { absolute, relative };

/// seconds(l) = seconds_per_flop * (linear l + gamma * quadratic l^2), and how well that describes
/// what was measured.
struct gamma_fit {
  double seconds_per_flop = 0;
  double gamma = 0;
  double rms_relative_error = 0;      ///< root of the mean square of (fitted - measured) / measured
  double largest_relative_error = 0;  ///< the same ratio where it is farthest from 0
  double r_squared = 0;               ///< 1 - squared errors / variance, in seconds; 1 is perfect

  friend bool operator==(gamma_fit const&, gamma_fit const&) = default;
};

/// Least squares for (seconds_per_flop, gamma), neither of them negative.
///
/// Floating-point sums differ between builds: one rank fits, and its two numbers are saved or
/// broadcast. From there on `latency_cost` works in integers.
///
/// Shapes      measurements[n]; n >= 2.
/// Units       `flops` is that of the passes that were timed.
/// Expects     both coefficients of `flops` are at least 1.
/// Ensures     (1) no other pair of non-negative numbers has a smaller sum of squared errors, up to
///                 floating-point rounding
/// Errors      out_of_range: measurement `position` has a length outside [1, longest_sample] or a
///             time outside [1e-12, 1e9] seconds; infeasible: fewer than two lengths differ, or
///             the times have no part that grows with the length alone, so that gamma would be
///             infinite.
/// Complexity  O(n), no allocation.
/// Source      Non-negative least squares: C. L. Lawson, R. J. Hanson, "Solving Least Squares
///             Problems", 1974, chapter 23; here with two unknowns, so by cases.
[[nodiscard]] inline result<gamma_fit> fit_latency(
    std::span<latency_measurement const> measurements, flop_polynomial flops,
    fit_error errors = fit_error::relative)
{
  BALLAST_EXPECTS(flops.linear >= 1 && flops.quadratic >= 1,
                  "the FLOP to fit have the coefficients ", flops.linear, " and ", flops.quadratic,
                  ", and the least of both is 1");
  for (std::size_t index = 0; index < measurements.size(); ++index) {
    auto const [length, seconds] = measurements[index];
    if (length < 1 || length > longest_sample) {
      return fail(error_code::out_of_range, index,
                  "measurement " + std::to_string(index) + " has a length of " +
                      std::to_string(length) + " tokens; lengths from 1 to " +
                      std::to_string(longest_sample) + " can be fitted");
    }
    // from() looks at the bits, since -ffast-math lets a compiler assume that no double is infinite.
    if (!detail::scaled_number::from(seconds) || seconds < 1e-12 || seconds > 1e9) {
      return fail(error_code::out_of_range, index,
                  "measurement " + std::to_string(index) +
                      " has no positive, finite time in seconds; measure it again or remove it");
    }
  }
  bool const one_length = std::all_of(
      measurements.begin(), measurements.end(),
      [&](latency_measurement const& each) { return each.length == measurements.front().length; });
  if (one_length) {
    return fail(error_code::infeasible, 0,
                "two unknowns need measurements of at least two different lengths");
  }

  auto const linear = static_cast<double>(flops.linear);
  auto const quadratic = static_cast<double>(flops.quadratic);
  struct row {
    double x1, x2, y;
  };
  auto const row_of = [&](latency_measurement const& sample) {
    auto const l = static_cast<double>(sample.length);
    double const weight = errors == fit_error::relative ? 1 / sample.seconds : 1;
    return row{
        .x1 = linear * l * weight, .x2 = quadratic * l * l * weight, .y = sample.seconds * weight};
  };
  auto const sum = [&](auto term) {
    double total = 0;
    for (latency_measurement const& sample : measurements) { total += term(row_of(sample)); }
    return total;
  };

  // Modified Gram-Schmidt: what the first column explains is taken out of the second and of the
  // times. The normal equations would lose twice the digits where lengths are close to each other,
  // since l and l^2 are nearly parallel there.
  double const x1_x1 = sum([](row r) { return r.x1 * r.x1; });
  double const x2_per_x1 = sum([](row r) { return r.x1 * r.x2; }) / x1_x1;
  double const y_per_x1 = sum([](row r) { return r.x1 * r.y; }) / x1_x1;
  auto const rest = [&](row r) {
    return row{.x1 = 0, .x2 = r.x2 - x2_per_x1 * r.x1, .y = r.y - y_per_x1 * r.x1};
  };
  double const x2_x2 = sum([&](row r) { return rest(r).x2 * rest(r).x2; });
  double const x2_y = sum([&](row r) { return rest(r).x2 * rest(r).y; });

  // Both columns and the times are positive, so at most one coefficient is negative, and the best
  // admissible pair then has 0 in its place.
  double const second = x2_x2 > 0 ? std::max(x2_y / x2_x2, 0.0) : 0;
  double const first = y_per_x1 - second * x2_per_x1;
  if (!(first > 0) || second > 1e9 * first) {
    return fail(error_code::infeasible, 0,
                "the times grow as the square of the length or faster, which leaves gamma without "
                "a finite value; measure shorter samples as well");
  }

  gamma_fit fit{.seconds_per_flop = first, .gamma = second / first};
  auto const count = static_cast<double>(measurements.size());
  double mean = 0;
  for (latency_measurement const& sample : measurements) { mean += sample.seconds / count; }
  double squares = 0;
  double variance = 0;
  for (latency_measurement const& sample : measurements) {
    auto const l = static_cast<double>(sample.length);
    double const error = first * linear * l + second * quadratic * l * l - sample.seconds;
    double const relative = error / sample.seconds;
    fit.rms_relative_error += relative * relative / count;
    fit.largest_relative_error = std::max(fit.largest_relative_error, std::abs(relative));
    squares += error * error;
    variance += (sample.seconds - mean) * (sample.seconds - mean);
  }
  fit.rms_relative_error = std::sqrt(fit.rms_relative_error);
  fit.r_squared = variance > 0 ? 1 - squares / variance : 0;
  return fit;
}

/// The fitted latency as a cost model, for any polynomial of the same module: one layer or all.
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

#endif  // BALLAST_COST_LATENCY_FIT_HPP
