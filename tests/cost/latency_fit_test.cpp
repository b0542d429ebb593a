// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/latency_fit.hpp>

#include "../support/exact.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/flops.hpp>

namespace {

using namespace ballast;
using ballast::detail::coefficients;
using ballast::detail::fit_robustly;
using ballast::detail::fit_row;
using ballast::detail::tukey_loss;
using ballast_test::cpp_rational;
using ballast_test::exact;
using ballast_test::power_of_two;
using testing::HasSubstr;

constexpr flop_polynomial width_3072{.linear = 226'492'416, .quadratic = 12'288};

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

using measurements = std::vector<gamma_fit::measurement>;

double seconds(double k, double gamma, tokens length)
{
  auto const l = static_cast<double>(length);
  return k * (static_cast<double>(width_3072.linear) * l +
              gamma * static_cast<double>(width_3072.quadratic) * l * l);
}

constexpr std::array<tokens, 7> profiled_lengths = {256, 512, 1024, 2048, 4096, 8192, 16384};

// A GPU that does 400 TFLOP/s, and what a call takes to launch.
measurements profile(double launch)
{
  measurements samples;
  for (tokens const length : profiled_lengths) {
    samples.push_back({length, seconds(2.5e-15, 0.405, length) + launch});
  }
  return samples;
}

// Close to normal, with a standard deviation of 1.
double noise(ballast::random_source& random)
{
  double sum = -6;
  for (int i = 0; i < 12; ++i) { sum += static_cast<double>(random.below(1 << 20)) * 0x1p-20; }
  return sum;
}

TEST(LatencyFit, RecoversWhatMadeTheTimes)  // Ensures (1)
{
  for (double const launch : {0.0, 50e-6}) {
    auto const samples = profile(launch);
    auto const fit = fit_latency(samples, width_3072).value();
    EXPECT_NEAR(fit.seconds_per_flop, 2.5e-15, 2.5e-15 * 1e-9);
    EXPECT_NEAR(fit.gamma, 0.405, 1e-9);
    EXPECT_NEAR(fit.seconds_per_call, launch, 1e-12);
    EXPECT_LT(fit.rms_relative_error, 1e-10);
    EXPECT_LT(fit.largest_relative_error, 1e-10);
    EXPECT_NEAR(fit.r_squared, 1, 1e-10);
    EXPECT_TRUE(fit.misfits(samples, width_3072).empty());
  }
}

TEST(LatencyFit, KeepsLaunchesApartFromGamma)
{
  // Without a constant, these 50 us turned a gamma of 0.405 into 0.16, with errors of 15 %.
  auto const fit = fit_latency(profile(50e-6), width_3072).value();
  EXPECT_NEAR(fit.gamma, 0.405, 1e-6);
  // They are per call: the work of a sample has none of them.
  auto const work = latency_cost(fit, width_3072).value();
  EXPECT_NEAR(static_cast<double>(work(1024)) * 1e-12, seconds(2.5e-15, 0.405, 1024), 1e-9);
  EXPECT_NEAR(fit.seconds(width_3072, 1024), seconds(2.5e-15, 0.405, 1024) + 50e-6, 1e-9);
  EXPECT_EQ(fit.seconds(width_3072, 0), fit.seconds_per_call);
}

TEST(LatencyFit, IsNotMovedByOneTimeThatIsTenTimesTooHighOrTooLow)
{
  for (double const factor : {10.0, 0.1}) {
    for (std::size_t outlier = 0; outlier < profiled_lengths.size(); ++outlier) {
      auto samples = profile(50e-6);
      samples[outlier].seconds *= factor;
      auto const fit = fit_latency(samples, width_3072).value();
      EXPECT_NEAR(fit.gamma, 0.405, 1e-6) << outlier;
      EXPECT_NEAR(fit.seconds_per_call, 50e-6, 1e-9) << outlier;
      EXPECT_LT(fit.median_relative_error, 1e-9);
      EXPECT_GT(fit.largest_relative_error, 0.85);
      EXPECT_EQ(fit.misfits(samples, width_3072), (std::vector<std::size_t>{outlier}));
    }
  }
}

TEST(LatencyFit, IsAsGoodWithATenthOfOutliersAsWithout)
{
  ballast::random_source random(405);
  double without = 0;
  double with = 0;
  constexpr int trials = ballast_test::trials_of(40);
  for (int trial = 0; trial < trials; ++trial) {
    measurements samples;
    for (int repeat = 0; repeat < 10; ++repeat) {
      for (auto const& [length, time] : profile(50e-6)) {
        samples.push_back({length, time * (1 + 0.02 * noise(random))});
      }
    }
    auto const clean = fit_latency(samples, width_3072).value();
    without += std::pow(clean.gamma - 0.405, 2) / trials;
    for (std::size_t outlier = 0; outlier < samples.size(); outlier += 10) {
      // Nine of ten are disturbed, and one misses the end of its work.
      samples[outlier + random.below(10)].seconds *=
          random.below(10) != 0 ? 1.5 + static_cast<double>(random.below(100)) / 10 : 0.05;
    }
    auto const disturbed = fit_latency(samples, width_3072).value();
    with += std::pow(disturbed.gamma - 0.405, 2) / trials;
    EXPECT_NEAR(disturbed.gamma, 0.405, 0.1);
    EXPECT_EQ(disturbed.misfits(samples, width_3072, 0.3).size(), 7U);
  }
  EXPECT_LT(std::sqrt(without), 0.03);
  EXPECT_LT(std::sqrt(with), 1.2 * std::sqrt(without));
}

TEST(LatencyFit, NamesTheLengthsWhereTheFormulaDoesNotHold)
{
  // Below 1024 tokens the GPU is not filled: half the speed at 512, a quarter at 256.
  auto samples = profile(0);
  samples[0].seconds *= 4;
  samples[1].seconds *= 2;
  auto const fit = fit_latency(samples, width_3072).value();
  EXPECT_NEAR(fit.gamma, 0.405, 0.1);
  EXPECT_EQ(fit.misfits(samples, width_3072).front(), 0U);
  EXPECT_TRUE(fit.misfits(samples, width_3072, 10).empty());
}

TEST(LatencyFit, NeedsNoMoreMeasurementsThanUnknowns)
{
  auto const all = profile(50e-6);
  for (measurements const& few :
       {measurements{all[0], all[3], all[6]}, measurements{all[6], all[0], all[2], all[4]}}) {
    auto const fit = fit_latency(few, width_3072).value();
    EXPECT_NEAR(fit.gamma, 0.405, 1e-6);
    EXPECT_NEAR(fit.seconds_per_call, 50e-6, 1e-9);
  }
}

TEST(LatencyFit, HasNoTimePerCallWithTwoLengths)
{
  // Two lengths cannot tell three unknowns apart.
  auto const all = profile(50e-6);
  auto const fit = fit_latency(measurements{all[2], all[5], all[2], all[5]}, width_3072).value();
  EXPECT_EQ(fit.seconds_per_call, 0);
  EXPECT_LT(fit.largest_relative_error, 1e-9);
}

TEST(LatencyFit, IsTheSameEveryTime)  // Ensures (3)
{
  auto samples = profile(1e-5);
  samples[3].seconds *= 3;
  samples[4].seconds *= 1.02;
  EXPECT_EQ(fit_latency(samples, width_3072).value(), fit_latency(samples, width_3072).value());
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

TEST(LatencyFit, ReportsHowFarItIsFromTheMeasurements)
{
  ballast::random_source random(7);
  auto samples = profile(2e-5);
  for (auto& sample : samples) { sample.seconds *= 1 + 0.05 * noise(random); }
  auto const fit = fit_latency(samples, width_3072).value();
  std::vector<double> relative;
  double squares = 0;
  double relative_squares = 0;
  double mean = 0;
  for (auto const& sample : samples) { mean += sample.seconds / 7; }
  double variance = 0;
  for (auto const& [length, measured] : samples) {
    double const fitted = seconds(fit.seconds_per_flop, fit.gamma, length) + fit.seconds_per_call;
    relative.push_back(std::abs(fitted / measured - 1));
    squares += std::pow(fitted - measured, 2);
    relative_squares += std::pow(fitted / measured - 1, 2);
    variance += std::pow(measured - mean, 2);
  }
  std::ranges::sort(relative);
  EXPECT_NEAR(fit.median_relative_error, relative[3], 1e-12);
  EXPECT_NEAR(fit.largest_relative_error, relative[6], 1e-12);
  EXPECT_NEAR(fit.rms_relative_error, std::sqrt(relative_squares / 7), 1e-12);
  EXPECT_NEAR(fit.r_squared, 1 - squares / variance, 1e-12);
  auto const far = fit.misfits(samples, width_3072, relative[4]);
  EXPECT_EQ(far.size(), 2U);
}

TEST(LatencyFit, HasNoVarianceToExplainWhereAllTimesAreEqual)
{
  measurements const samples = {{1000, 1.0}, {2000, 1.0}};
  auto const fit = fit_latency(samples, width_3072).value();
  EXPECT_EQ(fit.gamma, 0);
  EXPECT_EQ(fit.r_squared, 0);
}

TEST(LatencyFit, RefusesTimesThatAreNotThoseOfTheFormula)
{
  measurements const cubic = {{1000, 0.001}, {2000, 0.008}, {4000, 0.064}};
  measurements const constant = {{256, 5e-5}, {512, 5e-5}, {1024, 5e-5}};
  measurements const of_one_length = {{5, 1.0}, {5, 2.0}, {5, 3.0}};
  for (auto const& [samples, why] : {std::pair(cubic, "measure shorter samples"),
                                     {constant, "measure longer samples"},
                                     {{}, "two different lengths"},
                                     {{{5, 1.0}}, "two different lengths"},
                                     {of_one_length, "two different lengths"}}) {
    auto const failed = fit_latency(samples, width_3072);
    ASSERT_FALSE(failed.has_value()) << why;
    EXPECT_EQ(failed.error().code, error_code::infeasible);
    EXPECT_THAT(failed.error().message, HasSubstr(why));
  }
}

TEST(LatencyFit, NamesTheMeasurementThatIsNone)
{
  using limits = std::numeric_limits<double>;
  for (double const time : {limits::quiet_NaN(), limits::infinity(), -limits::infinity(), -1.0, 0.0,
                            -0.0, limits::denorm_min(), 1e10}) {
    ballast_test::expect_refused(
        fit_latency(measurements{{1, 1.0}, {2, 1.0}, {3, time}}, width_3072),
        error_code::out_of_range, 2, "measurement 2");
  }
  for (tokens const length : {tokens{0}, tokens{-1}, ballast::longest_sample + 1}) {
    auto const failed = fit_latency(measurements{{1, 1.0}, {length, 1.0}}, width_3072);
    ASSERT_FALSE(failed.has_value()) << length;
    EXPECT_EQ(failed.error().position, 1U);
  }
}

TEST(LatencyFitDeathTest, RejectsAModuleWithoutAttention)
{
  measurements const samples = {{1, 1.0}, {2, 2.0}};
  EXPECT_DEATH((void)fit_latency(samples, {.linear = 1}), "the coefficients 1 and 0,");
  EXPECT_DEATH((void)gamma_fit{}.seconds(width_3072, -1), "a sample of -1 tokens");
}

TEST(LatencyFit, GivesACostInPicoseconds)
{
  // [fit]
  // Say these are one layer's forward passes in seconds, timed on one rank.
  std::array<ballast::gamma_fit::measurement, 4> const measured = {
      {{256, 0.000146}, {1100, 0.000636}, {4488, 0.002802}, {16776, 0.013031}}};
  auto const layer = ballast::forward_flops(ballast::classic_transformer(3072)).value();
  auto const fit = ballast::fit_latency(measured, layer).value();
  auto const cost = ballast::latency_cost(fit, layer).value();  // in picoseconds
  // fit.gamma is 0.41, fit.largest_relative_error is below 1 %, and cost(4488) is 2.8 ms.
  // [fit]
  EXPECT_NEAR(fit.gamma, 0.41, 0.01);
  EXPECT_LT(fit.largest_relative_error, 0.01);
  EXPECT_NEAR(static_cast<double>(cost(4488)) * 1e-12, 0.002802, 0.00003);
}

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

}  // namespace
