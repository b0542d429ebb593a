// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/gamma_fit.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

namespace {

using ballast::cost_units;
using ballast::error_code;
using ballast::flop_polynomial;
using ballast::gamma_fit;
using ballast::latency_cost;
using ballast::no_cost;
using ballast::tokens;
using ballast_test::cpp_rational;
using ballast_test::exact;
using ballast_test::power_of_two;
using testing::HasSubstr;

constexpr flop_polynomial layer_flops{.linear = 226'492'416, .quadratic = 12'288};

RC_GTEST_PROP(LatencyCost, IsCloseToTheFittedTime, ())  // Ensures (1)
{
  double const k = *rc::gen::inRange(1, 1 << 20) * 0x1p-70;
  double const gamma = *rc::gen::inRange(0, 1 << 20) * 0x1p-18;
  auto const length =
      *rc::gen::inRange<tokens>(0, (ballast::longest_sample >> *rc::gen::inRange(0, 31)) + 1);
  cpp_rational const l = length;
  cpp_rational const true_cost =
      exact(k) * 1'000'000'000'000 *
      (layer_flops.linear * l + exact(gamma) * layer_flops.quadratic * l * l);

  auto const cost = latency_cost({.seconds_per_flop = k, .gamma = gamma}, layer_flops).value();
  cpp_rational const bound =
      cpp_rational(1, 2) + l * l * power_of_two(3 - static_cast<int>(cost.fraction_bits));
  cost_units const found = cost(length);
  if (found == no_cost) {
    RC_ASSERT(true_cost + bound >= no_cost);
  } else {
    RC_ASSERT(abs(true_cost - found) <= bound);
  }
}

TEST(LatencyCost, RefusesNumbersThatNoFitHas)
{
  using limits = std::numeric_limits<double>;
  for (double const bad : {limits::quiet_NaN(), limits::infinity(), -1.0}) {
    EXPECT_EQ(latency_cost({.seconds_per_flop = bad, .gamma = 1}, layer_flops).error().code,
              error_code::out_of_range);
    EXPECT_EQ(latency_cost({.seconds_per_flop = 1e-15, .gamma = bad}, layer_flops).error().code,
              error_code::out_of_range);
  }
  EXPECT_FALSE(latency_cost(gamma_fit{}, layer_flops).has_value());
  EXPECT_THAT(latency_cost({.seconds_per_flop = 1}, layer_flops).error().message,
              HasSubstr("check the unit of seconds_per_flop"));
}

TEST(GammaFit, AddsTheLaunchToTheTimeOfTheFlop)
{
  gamma_fit const fit{.seconds_per_flop = 0.5, .gamma = 0.25, .seconds_per_call = 3};
  EXPECT_EQ(fitted_seconds(fit, {.linear = 4, .quadratic = 8}, 0), 3);
  EXPECT_EQ(fitted_seconds(fit, {.linear = 4, .quadratic = 8}, 10), 3 + 0.5 * (40 + 0.25 * 800));
}

}  // namespace
