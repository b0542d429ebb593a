// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_DETAIL_FITTED_TIME_HPP
#define BALLAST_COST_DETAIL_FITTED_TIME_HPP

#include <ballast/cost/gamma_fit.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// What a fit says of a measured time.
struct fitted_time {
  double fitted = 0;
  double measured = 0;

  [[nodiscard]] double relative_error() const { return std::abs(fitted - measured) / measured; }
};

/// Fills in how well a fit describes what was measured.
///
/// Expects     times.size() >= 1; measured times are above 0.
inline void judge_fit(gamma_fit& fit, std::span<fitted_time const> times)
{
  auto const count = static_cast<double>(times.size());
  double mean = 0;
  for (fitted_time const& time : times) { mean += time.measured / count; }
  double squares = 0;
  double variance = 0;
  std::vector<double> relative_errors;
  for (fitted_time const& time : times) {
    double const error = time.fitted - time.measured;
    double const relative = time.relative_error();
    relative_errors.push_back(relative);
    fit.rms_relative_error += relative * relative / count;
    squares += error * error;
    variance += (time.measured - mean) * (time.measured - mean);
  }
  std::sort(relative_errors.begin(), relative_errors.end());
  fit.median_relative_error = relative_errors[relative_errors.size() / 2];
  fit.largest_relative_error = relative_errors.back();
  fit.rms_relative_error = std::sqrt(fit.rms_relative_error);
  fit.r_squared = variance > 0 ? 1 - squares / variance : 0;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COST_DETAIL_FITTED_TIME_HPP
