// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_LATENCY_FIT_HPP
#define BALLAST_COST_LATENCY_FIT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/detail/fitted_time.hpp>
#include <ballast/cost/detail/nonnegative_fit.hpp>
#include <ballast/cost/detail/robust_fit.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/gamma_fit.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// How long one call of a module took for one sample.
struct latency_measurement {
  tokens length = 0;
  double seconds = 0;
};

/// Which measurements are further from the fit than a share of their time, by their indices. One of
/// many is an outlier; several, or all of one end, say that the formula does not describe the
/// module there, as where short samples do not fill the GPU: use `interpolated_cost`.
///
/// Expects     lengths from 0 to longest_sample.
/// Complexity  O(measurements).
[[nodiscard]] inline std::vector<std::size_t> misfits(
    std::span<latency_measurement const> measurements, flop_polynomial flops, gamma_fit const& fit,
    double share = 0.05)
{
  std::vector<std::size_t> found;
  for (std::size_t index = 0; index < measurements.size(); ++index) {
    auto const [length, seconds] = measurements[index];
    detail::fitted_time const time{fitted_seconds(fit, flops, length), seconds};
    if (time.relative_error() > share) { found.push_back(index); }
  }
  return found;
}

/// Fits (seconds_per_flop, gamma, seconds_per_call), none of them negative, to what most of the
/// measurements say: a time that was disturbed moves nothing, however long it is.
///
/// Errors count relative to the measured times, so that short samples, which tell of launches,
/// count as much as long ones. Measurements of two lengths cannot tell the time per call from the
/// rest, so it is 0. One outlier of seven lengths is found; measure each length several times, and
/// more than a tenth of all may be outliers. `misfits` names them, or the lengths where the formula
/// does not hold.
///
/// Floating-point sums differ between builds: one rank fits, and its numbers are saved or
/// broadcast. From there on `latency_cost` works in integers.
///
/// Shapes      measurements[n]; n >= 2.
/// Units       `flops` is that of the passes that were timed.
/// Expects     both coefficients of `flops` are at least 1.
/// Ensures     (1) exact times give back what made them, up to floating-point rounding
///             (2) from the best of a thousand fits to a few of them on, Tukey's loss of the errors
///                 is made smaller; its limit, 4.7 standard deviations of what most measurements
///                 scatter by, is at least 1 %
///             (3) the same in every call with the same measurements in the same order
/// Errors      out_of_range: measurement `position` has a length outside [1, longest_sample] or a
///             time outside [1e-12, 1e9] seconds; infeasible: fewer than two lengths differ, or the
///             times have no part that grows with the length alone, so that gamma would be infinite
///             or anything.
/// Complexity  O(n) times about a thousand.
/// Source      V. J. Yohai, "High Breakdown-Point and High Efficiency Robust Estimates for
///             Regression", Annals of Statistics 15, 1987.
[[nodiscard]] inline result<gamma_fit> fit_latency(
    std::span<latency_measurement const> measurements, flop_polynomial flops)
{
  BALLAST_EXPECTS(flops.linear >= 1 && flops.quadratic >= 1,
                  "the FLOP to fit have the coefficients ", flops.linear, " and ", flops.quadratic,
                  ", and the least of both is 1");
  auto const linear = static_cast<double>(flops.linear);
  auto const quadratic = static_cast<double>(flops.quadratic);
  std::vector<detail::fit_row> rows;
  std::vector<tokens> lengths;
  for (std::size_t index = 0; index < measurements.size(); ++index) {
    auto const [length, seconds] = measurements[index];
    if (length < 1 || length > longest_sample) {
      return fail(error_code::out_of_range, index, "measurement ", index, " has a length of ",
                  detail::counted(length, "token"), "; lengths from 1 to ", longest_sample,
                  " can be fitted");
    }
    // from() looks at the bits, since -ffast-math lets a compiler assume that no double is
    // infinite.
    if (!detail::scaled_number::from(seconds) || seconds < 1e-12 || seconds > 1e9) {
      return fail(error_code::out_of_range, index, "measurement ", index,
                  " has no positive, finite time in seconds; measure it again or remove it");
    }
    auto const l = static_cast<double>(length);
    rows.push_back({.x = {linear * l / seconds, quadratic * l * l / seconds, 1 / seconds}, .y = 1});
    lengths.push_back(length);
  }
  std::sort(lengths.begin(), lengths.end());
  auto const different = std::unique(lengths.begin(), lengths.end()) - lengths.begin();
  if (different < 2) {
    return fail(
        error_code::infeasible, 0,
        "two unknowns need measurements of at least two different lengths; measure another one");
  }

  auto const c = detail::fit_robustly(detail::span_of(rows), {true, true, different > 2}).c;
  double const per_flop = c[0];
  double const per_attention_flop = c[1];
  if (per_attention_flop == 0 && !(per_flop > 0)) {
    return fail(error_code::infeasible, 0,
                "the times do not grow with the length, so they tell of launches only; measure "
                "longer samples as well");
  }
  if (!(per_flop > 0) || per_attention_flop > 1e9 * per_flop) {
    return fail(error_code::infeasible, 0,
                "the times grow as the square of the length or faster, which leaves gamma without "
                "a finite value; measure shorter samples as well");
  }

  gamma_fit fit{.seconds_per_flop = per_flop,
                .gamma = per_attention_flop / per_flop,
                .seconds_per_call = c[2]};
  std::vector<detail::fitted_time> times;
  for (auto const& [length, seconds] : measurements) {
    times.push_back({fitted_seconds(fit, flops, length), seconds});
  }
  detail::judge_fit(fit, detail::span_of(times));
  return fit;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_LATENCY_FIT_HPP
