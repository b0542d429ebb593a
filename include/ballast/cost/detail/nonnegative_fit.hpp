// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_DETAIL_NONNEGATIVE_FIT_HPP
#define BALLAST_COST_DETAIL_NONNEGATIVE_FIT_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/detail/span_of.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// As many as a step has: per token, per token^2, per exchanged token, per sequence, per step. A
/// latency has three.
inline constexpr std::size_t most_unknowns = 5;

using coefficients = std::array<double, most_unknowns>;

/// Which unknowns a fit may use; the others are 0.
using chosen_unknowns = std::array<bool, most_unknowns>;

/// One measurement: the sum of x[i] c[i] should be y.
struct fit_row {
  coefficients x{};
  double y = 0;

  /// How far it is from that.
  [[nodiscard]] double error(coefficients const& c) const
  {
    double sum = 0;
    for (std::size_t unknown = 0; unknown < most_unknowns; ++unknown) {
      sum += x[unknown] * c[unknown];
    }
    return sum - y;
  }

  [[nodiscard]] fit_row operator*(double factor) const
  {
    fit_row scaled{.x = x, .y = y * factor};
    for (double& each : scaled.x) { each *= factor; }
    return scaled;
  }
};

struct fitted_coefficients {
  coefficients c{};
  double squared_errors = std::numeric_limits<double>::max();
};

/// Least squares in the chosen unknowns, whatever their sign; nothing where they depend on each
/// other. Overwrites the rows.
///
/// Modified Gram-Schmidt: what a column explains is taken out of those after it and of y. The
/// normal equations would lose twice the digits where lengths are close to each other, since l and
/// l^2 are nearly parallel there.
[[nodiscard]] inline std::optional<fitted_coefficients> fit_least_squares(
    std::span<fit_row> rows, chosen_unknowns const& chosen)
{
  constexpr double dependent = 1e-28;  // of the squared norm of a column: nothing but rounding
  std::array<coefficients, most_unknowns> shares{};  // of the column in the columns after it
  fitted_coefficients fit{.c = {}, .squared_errors = 0};
  coefficients norms{};
  for (std::size_t column = 0; column < most_unknowns; ++column) {
    if (!chosen[column]) { continue; }
    for (fit_row const& row : rows) { norms[column] += row.x[column] * row.x[column]; }
  }
  for (std::size_t column = 0; column < most_unknowns; ++column) {
    if (!chosen[column]) { continue; }
    double square = 0;
    double of_y = 0;
    coefficients products{};
    for (fit_row const& row : rows) {
      square += row.x[column] * row.x[column];
      of_y += row.x[column] * row.y;
      for (std::size_t after = column + 1; after < most_unknowns; ++after) {
        if (chosen[after]) { products[after] += row.x[column] * row.x[after]; }
      }
    }
    if (!(square > dependent * norms[column])) { return std::nullopt; }
    fit.c[column] = of_y / square;
    for (std::size_t after = column + 1; after < most_unknowns; ++after) {
      shares[column][after] = products[after] / square;
    }
    for (fit_row& row : rows) {
      row.y -= fit.c[column] * row.x[column];
      for (std::size_t after = column + 1; after < most_unknowns; ++after) {
        if (chosen[after]) { row.x[after] -= shares[column][after] * row.x[column]; }
      }
    }
  }
  for (std::size_t column = most_unknowns; column-- > 0;) {
    for (std::size_t after = column + 1; after < most_unknowns; ++after) {
      if (chosen[column] && chosen[after]) {
        fit.c[column] -= shares[column][after] * fit.c[after];
      }
    }
  }
  for (fit_row const& row : rows) { fit.squared_errors += row.y * row.y; }
  return fit;
}

/// Least squares in the chosen unknowns, none of them negative, by cases: the best admissible
/// coefficients are the least squares of those that are not 0.
///
/// Ensures     (1) no other coefficients of the chosen unknowns that are not negative have a
///                 smaller sum of squared errors, up to floating-point rounding
/// Complexity  O(rows); `scratch` is overwritten.
/// Source      C. L. Lawson, R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.
[[nodiscard]] inline fitted_coefficients fit_nonnegative(std::span<fit_row const> rows,
                                                         chosen_unknowns const& chosen,
                                                         std::vector<fit_row>& scratch)
{
  fitted_coefficients best;
  for (unsigned subset = 0; subset < (1U << most_unknowns); ++subset) {
    chosen_unknowns used{};
    bool allowed = true;
    for (std::size_t unknown = 0; unknown < most_unknowns; ++unknown) {
      used[unknown] = ((subset >> unknown) & 1U) != 0;
      allowed = allowed && (chosen[unknown] || !used[unknown]);
    }
    if (!allowed) { continue; }
    scratch.assign(rows.begin(), rows.end());
    auto const fit = fit_least_squares(mutable_span_of(scratch), used);
    if (fit && *std::min_element(fit->c.begin(), fit->c.end()) >= 0 &&
        fit->squared_errors < best.squared_errors) {
      best = *fit;
    }
  }
  return best;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COST_DETAIL_NONNEGATIVE_FIT_HPP
