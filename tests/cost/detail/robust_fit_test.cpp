// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/detail/robust_fit.hpp>  // first: proves it is self-contained

#include "../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace {

using ballast::detail::coefficients;
using ballast::detail::fit_robustly;
using ballast::detail::fit_row;
using ballast::detail::tukey_loss;

// Relative errors of 2 x + x^2 / 4 + 3 at x = 1, 2, 4, ..., each measured time off by a factor.
std::vector<fit_row> rows_of(std::vector<double> const& factors)
{
  std::vector<fit_row> rows;
  double x = 1;
  for (double const factor : factors) {
    double const y = factor * (2 * x + x * x / 4 + 3);
    rows.push_back({.x = {x / y, x * x / y, 1 / y}, .y = 1});
    x *= 2;
  }
  return rows;
}

double total_loss(std::vector<fit_row> const& rows, coefficients const& c, double limit)
{
  double sum = 0;
  for (fit_row const& row : rows) { sum += tukey_loss(row.error(c), limit); }
  return sum;
}

TEST(RobustFit, IsNoWorseThanAnyPointOfAGrid)  // Ensures (1)
{
  ballast::random_source random(20240607);
  int with_outliers = 0;
  constexpr int trials = ballast_test::trials_of(60);
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> factors(6 + random.below(4));
    for (double& factor : factors) { factor = 0.97 + static_cast<double>(random.below(61)) / 1000; }
    if (random.below(2) != 0) {
      factors[random.below(factors.size())] *= random.below(2) != 0 ? 10 : 0.1;
      ++with_outliers;
    }
    auto const rows = rows_of(factors);
    auto const [c, limit] = fit_robustly(rows, {true, true, true});
    double const least = total_loss(rows, c, limit);
    for (int i = 0; i <= 40; ++i) {
      for (int j = 0; j <= 40; ++j) {
        for (int k = 0; k <= 40; ++k) {
          coefficients const other{0.1 * i, 0.0125 * j, 0.15 * k};  // around 2, 1/4 and 3
          ASSERT_GE(total_loss(rows, other, limit), least * (1 - 1e-9))
              << "trial " << trial << ": " << i << ", " << j << ", " << k;
        }
      }
    }
    for (double const near : {0.999, 1.001}) {
      for (std::size_t unknown = 0; unknown < 3; ++unknown) {
        coefficients other = c;
        other[unknown] *= near;
        ASSERT_GE(total_loss(rows, other, limit), least * (1 - 1e-6)) << "trial " << trial;
      }
    }
  }
  EXPECT_GT(with_outliers, ballast_test::is_sanitized ? 1 : 20);
}

TEST(RobustFit, TakesNothingWithinOnePerCentForAnOutlier)  // Ensures (2)
{
  EXPECT_EQ(fit_robustly(rows_of({1, 1, 1, 1, 1}), {true, true, true}).limit, 0.01);
  EXPECT_GT(fit_robustly(rows_of({1.02, 0.98, 1.02, 0.98, 1.02}), {true, true, true}).limit, 0.04);
}

TEST(RobustFit, UsesTheChosenUnknownsAlone)
{
  auto const rows = rows_of({1, 1, 1, 1, 1, 1});
  auto const fit = fit_robustly(rows, {true, true, false});
  EXPECT_EQ(fit.c[2], 0);
  EXPECT_GT(fit.c[0], 2);  // takes the place of the constant
}

}  // namespace
