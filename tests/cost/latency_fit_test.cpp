// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/latency_fit.hpp>  // first: proves it is self-contained

#include "exact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/core/value_or_throw.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::classic_transformer;
using ballast::cost_units;
using ballast::error_code;
using ballast::fit_error;
using ballast::fit_latency;
using ballast::flop_polynomial;
using ballast::forward_flops;
using ballast::gamma_fit;
using ballast::latency_cost;
using ballast::latency_measurement;
using ballast::no_cost;
using ballast::tokens;
using ballast_test::cpp_rational;
using ballast_test::exact;
using ballast_test::power_of_two;
using testing::HasSubstr;

using measurements = std::vector<latency_measurement>;

constexpr flop_polynomial width_3072{.linear = 226'492'416, .quadratic = 12'288};

double seconds(double k, double gamma, tokens length)
{
  auto const l = static_cast<double>(length);
  return k * (static_cast<double>(width_3072.linear) * l +
              gamma * static_cast<double>(width_3072.quadratic) * l * l);
}

double squared_errors(measurements const& samples, double k, double gamma, fit_error errors)
{
  double sum = 0;
  for (auto const& [length, measured] : samples) {
    double const difference = seconds(k, gamma, length) - measured;
    double const error = errors == fit_error::relative ? difference / measured : difference;
    sum += error * error;
  }
  return sum;
}

TEST(LatencyFit, RecoversWhatMadeTheTimes)
{
  for (fit_error const errors : {fit_error::absolute, fit_error::relative}) {
    measurements samples;
    for (tokens const length : {256, 1100, 4488, 16776}) {
      samples.push_back({length, seconds(2.5e-15, 0.405, length)});
    }
    auto const fit = fit_latency(samples, width_3072, errors).value();
    EXPECT_NEAR(fit.seconds_per_flop, 2.5e-15, 2.5e-15 * 1e-12);
    EXPECT_NEAR(fit.gamma, 0.405, 1e-12);
    EXPECT_LT(fit.rms_relative_error, 1e-14);
    EXPECT_LT(fit.largest_relative_error, 1e-14);
    EXPECT_NEAR(fit.r_squared, 1, 1e-14);
  }
}

TEST(LatencyFit, StandsLengthsThatAreCloseTogether)
{
  // Columns l and l^2 of 100000 and 100001 differ by a hundred-thousandth, so that solving loses
  // five of sixteen digits; the normal equations would lose ten.
  measurements const samples = {{100'000, seconds(1e-15, 0.5, 100'000)},
                                {100'001, seconds(1e-15, 0.5, 100'001)}};
  auto const fit = fit_latency(samples, width_3072).value();
  EXPECT_NEAR(fit.gamma, 0.5, 1e-9);
}

TEST(LatencyFit, NoOtherPairIsBetter)  // Ensures (1)
{
  ballast::random_source random(20240607);
  int without_gamma = 0;
  for (int trial = 0; trial < 200; ++trial) {
    // Noise of up to a half makes some fits want a negative gamma.
    measurements samples(2 + random.below(6));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      auto const length = static_cast<tokens>(100 + 3000 * i + random.below(3000));
      double const noise = 0.5 + static_cast<double>(random.below(1000)) / 1000;
      samples[i] = {length, noise * seconds(2e-15, 0.2, length)};
    }
    for (fit_error const errors : {fit_error::absolute, fit_error::relative}) {
      auto const fit = fit_latency(samples, width_3072, errors);
      if (!fit) {
        EXPECT_EQ(fit.error().code, error_code::infeasible);
        continue;
      }
      without_gamma += fit->gamma == 0 ? 1 : 0;
      double const least = squared_errors(samples, fit->seconds_per_flop, fit->gamma, errors);
      for (int i = 0; i <= 60; ++i) {
        for (int j = 0; j <= 60; ++j) {
          double const k = fit->seconds_per_flop * i / 30;
          double const gamma = j * (fit->gamma + 0.1) / 30;
          ASSERT_GE(squared_errors(samples, k, gamma, errors), least * (1 - 1e-9))
              << "trial " << trial << " k " << k << " gamma " << gamma;
        }
      }
    }
  }
  EXPECT_GT(without_gamma, 10);  // both cases were met
}

TEST(LatencyFit, ReportsHowFarItIsFromTheMeasurements)
{
  // One measurement is 10 % high and its twin 10 % low: the fit runs through the middle.
  measurements samples;
  for (tokens const length : {1000, 8000}) {
    samples.push_back({length, 1.1 * seconds(1e-15, 1, length)});
    samples.push_back({length, 0.9 * seconds(1e-15, 1, length)});
  }
  auto const fit = fit_latency(samples, width_3072, fit_error::absolute).value();
  EXPECT_NEAR(fit.gamma, 1, 1e-9);
  EXPECT_NEAR(fit.largest_relative_error, 0.1 / 0.9, 1e-9);
  double const high = 0.1 / 1.1;
  double const low = 0.1 / 0.9;
  EXPECT_NEAR(fit.rms_relative_error, std::sqrt((high * high + low * low) / 2), 1e-9);
  double const a = seconds(1e-15, 1, 1000);
  double const b = seconds(1e-15, 1, 8000);
  double const errors = 2 * 0.01 * (a * a + b * b);
  double const variance = errors + (a - b) * (a - b);  // of two pairs, each around a mean
  EXPECT_NEAR(fit.r_squared, 1 - errors / variance, 1e-9);
}

TEST(LatencyFit, HasNoVarianceToExplainWhereAllTimesAreEqual)
{
  measurements const samples = {{1000, 1.0}, {2000, 1.0}};
  auto const fit = fit_latency(samples, width_3072).value();
  EXPECT_EQ(fit.gamma, 0);
  EXPECT_EQ(fit.r_squared, 0);
}

TEST(LatencyFit, RefusesTimesThatGrowTooFast)
{
  // Eight times as long for twice the length: cubic.
  measurements const samples = {{1000, 0.001}, {2000, 0.008}, {4000, 0.064}};
  auto const failed = fit_latency(samples, width_3072);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, error_code::infeasible);
  EXPECT_THAT(failed.error().message, HasSubstr("measure shorter samples"));
}

TEST(LatencyFit, NamesTheMeasurementThatIsNone)
{
  using limits = std::numeric_limits<double>;
  for (double const time : {limits::quiet_NaN(), limits::infinity(), -limits::infinity(), -1.0, 0.0,
                            -0.0, limits::denorm_min(), 1e10}) {
    auto const failed = fit_latency(measurements{{1, 1.0}, {2, 1.0}, {3, time}}, width_3072);
    ASSERT_FALSE(failed.has_value()) << time;
    EXPECT_EQ(failed.error().code, error_code::out_of_range);
    EXPECT_EQ(failed.error().position, 2U);
    EXPECT_THAT(failed.error().message, HasSubstr("measurement 2"));
  }
  for (tokens const length : {tokens{0}, tokens{-1}, ballast::longest_sample + 1}) {
    auto const failed = fit_latency(measurements{{1, 1.0}, {length, 1.0}}, width_3072);
    ASSERT_FALSE(failed.has_value()) << length;
    EXPECT_EQ(failed.error().position, 1U);
  }
}

TEST(LatencyFit, NeedsTwoLengths)
{
  for (measurements const& samples :
       {measurements{}, measurements{{5, 1.0}}, measurements{{5, 1.0}, {5, 2.0}, {5, 3.0}}}) {
    auto const failed = fit_latency(samples, width_3072);
    EXPECT_EQ(failed.error().code, ballast::error_code::infeasible);
    EXPECT_THAT(failed.error().message, HasSubstr("two different lengths"));
  }
}

TEST(LatencyFitDeathTest, RejectsAModuleWithoutAttention)
{
  measurements const samples = {{1, 1.0}, {2, 2.0}};
  EXPECT_DEATH((void)fit_latency(samples, {.linear = 1}), "the coefficients 1 and 0,");
}

RC_GTEST_PROP(LatencyCost, IsCloseToTheFittedTime, ())  // Ensures (1)
{
  double const k = *rc::gen::inRange(1, 1 << 20) * 0x1p-70;
  double const gamma = *rc::gen::inRange(0, 1 << 20) * 0x1p-18;
  auto const length =
      *rc::gen::inRange<tokens>(0, (ballast::longest_sample >> *rc::gen::inRange(0, 31)) + 1);
  cpp_rational const l = length;
  cpp_rational const true_cost =
      exact(k) * 1'000'000'000'000 *
      (width_3072.linear * l + exact(gamma) * width_3072.quadratic * l * l);

  auto const cost = latency_cost({.seconds_per_flop = k, .gamma = gamma}, width_3072).value();
  cpp_rational const bound =
      cpp_rational(1, 2) + l * l * power_of_two(3 - static_cast<int>(cost.fraction_bits));
  cost_units const found = cost(length);
  if (found == no_cost) {
    RC_ASSERT(true_cost + bound >= no_cost);
  } else {
    RC_ASSERT(abs(true_cost - found) <= bound);
  }
}

TEST(LatencyCost, IsInPicoseconds)
{
  // [fit]
  // Say these are one layer's forward passes in seconds, timed on one rank.
  std::array<ballast::latency_measurement, 4> const measured = {
      {{256, 0.000146}, {1100, 0.000636}, {4488, 0.002802}, {16776, 0.013031}}};
  auto const layer = value_or_throw(ballast::forward_flops(ballast::classic_transformer(3072)));
  auto const fit = value_or_throw(ballast::fit_latency(measured, layer));
  EXPECT_NEAR(fit.gamma, 0.41, 0.01);
  EXPECT_LT(fit.largest_relative_error, 0.01);

  auto const cost = value_or_throw(ballast::latency_cost(fit, layer));  // in picoseconds
  EXPECT_NEAR(static_cast<double>(cost(4488)) * 1e-12, 0.002802, 0.00003);
  // [fit]
}

TEST(LatencyCost, RefusesNumbersThatNoFitHas)
{
  using limits = std::numeric_limits<double>;
  for (double const bad : {limits::quiet_NaN(), limits::infinity(), -1.0}) {
    EXPECT_EQ(latency_cost({.seconds_per_flop = bad, .gamma = 1}, width_3072).error().code,
              error_code::out_of_range);
    EXPECT_EQ(latency_cost({.seconds_per_flop = 1e-15, .gamma = bad}, width_3072).error().code,
              error_code::out_of_range);
  }
  EXPECT_FALSE(latency_cost(gamma_fit{}, width_3072).has_value());
  EXPECT_THAT(latency_cost({.seconds_per_flop = 1}, width_3072).error().message,
              HasSubstr("check the unit of seconds_per_flop"));
}

}  // namespace
