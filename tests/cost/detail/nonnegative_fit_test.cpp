// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/detail/nonnegative_fit.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstddef>
#include <vector>

namespace {

using ballast::detail::chosen_unknowns;
using ballast::detail::coefficients;
using ballast::detail::fit_nonnegative;
using ballast::detail::fit_row;

double sum_of_squares(std::vector<fit_row> const& rows, coefficients const& c)
{
  double sum = 0;
  for (fit_row const& row : rows) { sum += row.error(c) * row.error(c); }
  return sum;
}

TEST(NonnegativeFit, NoOtherAdmissibleCoefficientsAreBetter)  // Ensures (1)
{
  ballast::random_source random(1974);
  auto const draw = [&] { return static_cast<double>(random.between(-100, 100)) / 50; };
  std::vector<fit_row> scratch;
  std::vector<int> zeros(4, 0);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<fit_row> rows(3 + random.below(6));
    for (fit_row& row : rows) { row = {.x = {draw(), draw(), draw()}, .y = draw()}; }
    chosen_unknowns const chosen{random.below(4) != 0, random.below(4) != 0, true};
    auto const fit = fit_nonnegative(rows, chosen, scratch);
    std::size_t none = 0;
    for (std::size_t unknown = 0; unknown < 3; ++unknown) {
      ASSERT_GE(fit.c[unknown], 0);
      ASSERT_TRUE(chosen[unknown] || fit.c[unknown] == 0);
      none += fit.c[unknown] == 0 ? 1 : 0;
    }
    ++zeros[none];
    double const least = sum_of_squares(rows, fit.c);
    EXPECT_NEAR(fit.squared_errors, least, 1e-9);
    for (int i = 0; i <= 20; ++i) {
      for (int j = 0; j <= 20; ++j) {
        for (int k = 0; k <= 20; ++k) {
          coefficients const other{chosen[0] ? fit.c[0] * i / 10 + (i > 10 ? 0.01 : 0.0) : 0,
                                   chosen[1] ? fit.c[1] * j / 10 + (j > 10 ? 0.01 : 0.0) : 0,
                                   fit.c[2] * k / 10 + (k > 10 ? 0.01 : 0.0)};
          ASSERT_GE(sum_of_squares(rows, other), least * (1 - 1e-9)) << "trial " << trial;
        }
      }
    }
  }
  for (int const met : zeros) { EXPECT_GT(met, 10); }
}

TEST(NonnegativeFit, LeavesOutAnUnknownThatDependsOnOthers)
{
  std::vector<fit_row> const rows = {{.x = {1, 2, 0}, .y = 3}, {.x = {2, 4, 0}, .y = 6}};
  std::vector<fit_row> scratch;
  auto const fit = fit_nonnegative(rows, {true, true, true}, scratch);
  EXPECT_LT(fit.squared_errors, 1e-24);
  EXPECT_NEAR(fit.c[0] + 2 * fit.c[1], 3, 1e-12);
  EXPECT_EQ(fit.c[2], 0);
}

}  // namespace
