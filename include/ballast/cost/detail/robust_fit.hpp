// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_DETAIL_ROBUST_FIT_HPP
#define BALLAST_COST_DETAIL_ROBUST_FIT_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/random.hpp>
#include <ballast/cost/detail/nonnegative_fit.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Tukey's loss of an error: it grows as the square does near 0, and is 1 from the limit on, so
/// that it does not matter how wrong a wrong measurement is.
[[nodiscard]] inline double tukey_loss(double error, double limit)
{
  double const rest = 1 - error * error / (limit * limit);
  return rest > 0 ? 1 - rest * rest * rest : 1;
}

struct robust_coefficients {
  coefficients c{};
  double limit = 0;  ///< errors from here on are outliers
};

/// Coefficients that are not negative and follow most of the rows, however far off the others are.
///
/// A robust loss alone is not enough: iterations from least squares stay with an outlier of the
/// longest samples, which the fit follows most. So many small sets of rows are fitted exactly; the
/// one closest to more than half of all rows says how large errors are, and Tukey's loss is made
/// small from the best of them on, by least squares with weights.
///
/// Expects     rows.size() >= the number of chosen unknowns >= 1; errors are relative.
/// Ensures     (1) the sum of tukey_loss(error, limit) is no larger than for any of the sets
///                 fitted; weighted least squares then make it smaller, a hundred times at most
///             (2) limit is at least 0.01: a measurement within 1 % is never left out
///             (3) the same for the same rows: the sets are drawn with a fixed seed
/// Complexity  O(rows) times about a thousand.
/// Source      V. J. Yohai, "High Breakdown-Point and High Efficiency Robust Estimates for
///             Regression", Annals of Statistics 15, 1987; the first scale as in P. J. Rousseeuw,
///             A. M. Leroy, "Robust Regression and Outlier Detection", 1987, chapter 5.
[[nodiscard]] inline robust_coefficients fit_robustly(std::span<fit_row const> rows,
                                                      chosen_unknowns const& chosen)
{
  constexpr int drawn_sets = 1000;
  constexpr int most_steps = 100;
  constexpr double tukey = 4.685;  // 95 % as efficient as least squares under normal noise
  auto const unknowns = static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true));
  std::vector<fit_row> scratch;

  std::vector<coefficients> candidates = {fit_nonnegative(rows, chosen, scratch).c};
  random_source random(1987);
  for (int draw = 0; draw < drawn_sets; ++draw) {
    std::array<std::size_t, most_unknowns> drawn{};
    std::array<fit_row, most_unknowns> set{};
    bool distinct = true;
    for (std::size_t i = 0; i < unknowns; ++i) {
      drawn[i] = static_cast<std::size_t>(random.below(rows.size()));
      set[i] = rows[drawn[i]];
      for (std::size_t j = 0; j < i; ++j) { distinct = distinct && drawn[j] != drawn[i]; }
    }
    if (!distinct) { continue; }
    candidates.push_back(fit_nonnegative({set.data(), unknowns}, chosen, scratch).c);
  }

  // The error that more than half of the rows stay within, where that is smallest.
  std::size_t const most = std::min(rows.size(), rows.size() / 2 + (unknowns + 1) / 2);
  double within = std::numeric_limits<double>::max();
  std::vector<double> errors(rows.size());
  for (coefficients const& c : candidates) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      errors[row] = std::abs(rows[row].error(c));
    }
    auto const last = errors.begin() + static_cast<std::ptrdiff_t>(most - 1);
    std::nth_element(errors.begin(), last, errors.end());
    within = std::min(within, *last);
  }
  // As a standard deviation of normal noise; few rows fit better than they should.
  auto const spare = static_cast<double>(std::max<std::size_t>(1, rows.size() - unknowns));
  double const limit = std::max(0.01, tukey * 1.4826 * (1 + 5 / spare) * within);

  auto const loss = [&](coefficients const& c) {
    double sum = 0;
    for (fit_row const& row : rows) { sum += tukey_loss(row.error(c), limit); }
    return sum;
  };
  coefficients best = candidates.front();
  double least = loss(best);
  for (coefficients const& c : candidates) {
    double const of_candidate = loss(c);
    if (of_candidate < least) {
      least = of_candidate;
      best = c;
    }
  }
  std::vector<fit_row> weighted(rows.size());
  for (int step = 0; step < most_steps; ++step) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      double const error = rows[row].error(best);
      weighted[row] = rows[row] * std::max(0.0, 1 - error * error / (limit * limit));
    }
    coefficients const next = fit_nonnegative(span_of(weighted), chosen, scratch).c;
    double const of_next = loss(next);
    if (!(of_next < least)) { break; }
    least = of_next;
    best = next;
  }
  return {.c = best, .limit = limit};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COST_DETAIL_ROBUST_FIT_HPP
