// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/latency_fit.hpp>

#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/flops.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;

constexpr ballast::flop_polynomial step_of_3072{.linear = 57ULL * 4 * 226'492'416,
                                                .quadratic = 57ULL * 4 * 12'288};
constexpr step_fit::terms all_terms{.gamma = {}, .sequences = true, .steps = true};

// A GPU that does 260 TFLOP/s, and what it does besides.
constexpr step_fit true_fit{
    .compute = {.seconds_per_flop = 1 / 260e12, .gamma = 0.405, .seconds_per_call = 0.3},
    .seconds_per_exchanged_token = 70e-6,
    .seconds_per_sequence = 2e-3};

// Steps of bags of all sizes. Oracle: the time is added up sequence by sequence and GPU by GPU.
std::vector<step_fit::measurement> draw_step_log(ballast::random_source& random, std::size_t steps,
                                                 std::uint32_t largest = 8)
{
  std::vector<step_fit::measurement> drawn(steps);
  for (step_fit::measurement& step : drawn) {
    do {
      step.gpus = std::uint32_t{1} << random.below(4);
    } while (step.gpus > largest);
    step.sequences = static_cast<std::uint32_t>(1 + random.below(40));
    step.seconds = 0.3;
    tokens const usual = random.between(200, 20'000);
    for (std::uint32_t sequence = 0; sequence < step.sequences; ++sequence) {
      tokens const length = random.between(usual / 2, usual);
      step.length_sum += length;
      step.square_sum += static_cast<std::uint64_t>(length * length);
      auto const l = static_cast<double>(length);
      double const flops = 57.0 * 4 * (24 * l * 3072 * 3072 + 0.405 * 4 * l * l * 3072);
      double const own = l / step.gpus;
      double const sent = own - own / step.gpus;
      step.seconds += flops / step.gpus / 260e12 + 70e-6 * sent + 2e-3;
    }
  }
  return drawn;
}

void expect_true_fit(step_fit const& fit, double share)
{
  EXPECT_NEAR(fit.compute.seconds_per_flop * 260e12, 1, share);
  EXPECT_NEAR(fit.compute.gamma / 0.405, 1, share);
  EXPECT_NEAR(fit.compute.seconds_per_call / 0.3, 1, share);
  EXPECT_NEAR(fit.seconds_per_exchanged_token / 70e-6, 1, share);
  EXPECT_NEAR(fit.seconds_per_sequence / 2e-3, 1, share);
}

TEST(StepFit, RecoversWhatMadeTheTimes)  // Ensures (1) (3)
{
  ballast::random_source random(1);
  auto const steps = draw_step_log(random, 60);
  auto const fit = fit_steps(steps, step_of_3072, all_terms).value();
  expect_true_fit(fit, 1e-6);
  EXPECT_LT(fit.compute.largest_relative_error, 1e-9);
  EXPECT_NEAR(fit.compute.r_squared, 1, 1e-9);
  EXPECT_EQ(fit, fit_steps(steps, step_of_3072, all_terms).value());
  for (step_fit::measurement const& step : steps) {
    EXPECT_NEAR(true_fit.seconds(step_of_3072, step), step.seconds, 1e-9);
  }
  // The work of a sequence alone, in nanoseconds.
  auto const cost = fit.cost(step_of_3072).value();
  double const flops = 57.0 * 4 * (24 * 4488.0 * 3072 * 3072 + 0.405 * 4 * 4488.0 * 4488 * 3072);
  EXPECT_NEAR(static_cast<double>(cost(4488)), 1e9 * flops / 260e12, 10);
}

TEST(StepFit, TakesGammaFromElsewhere)
{
  ballast::random_source random(2);
  auto const steps = draw_step_log(random, 60);
  auto const fit =
      fit_steps(steps, step_of_3072, {.gamma = 0.405, .sequences = true, .steps = true}).value();
  expect_true_fit(fit, 1e-6);
  EXPECT_EQ(fit.compute.gamma, 0.405);
}

TEST(StepFit, IsNotMovedByATenthOfDisturbedStepsAndNamesThem)  // Ensures (2)
{
  ballast::random_source random(3);
  for (int trial = 0; trial < ballast_test::trials_of(4); ++trial) {
    auto steps = draw_step_log(random, 200);
    for (step_fit::measurement& step : steps) {  // noise of up to 1 %
      step.seconds *= 1 + 0.01 * (static_cast<double>(random.below(2001)) / 1000 - 1);
    }
    std::vector<std::size_t> disturbed;
    for (auto step = static_cast<std::size_t>(trial % 10); step < steps.size(); step += 10) {
      steps[step].seconds *= step % 3 == 0 ? 0.3 : 4;  // lost its end, or waited for a file
      disturbed.push_back(step);
    }
    auto const fit = fit_steps(steps, step_of_3072, all_terms).value();
    expect_true_fit(fit, 0.1);
    EXPECT_EQ(fit.misfits(steps, step_of_3072), disturbed);
    EXPECT_LT(fit.compute.median_relative_error, 0.01);
  }
}

TEST(StepFit, HasNoExchangesWithoutBags)  // Ensures (4)
{
  ballast::random_source random(4);
  auto const steps = draw_step_log(random, 40, 1);
  auto const fit = fit_steps(steps, step_of_3072, all_terms).value();
  EXPECT_EQ(fit.seconds_per_exchanged_token, 0);
  EXPECT_NEAR(fit.compute.gamma, 0.405, 1e-6);
}

TEST(StepFit, LeavesOutTermsThatNobodyAskedFor)
{
  ballast::random_source random(5);
  auto const fit = fit_steps(draw_step_log(random, 40), step_of_3072).value();
  EXPECT_EQ(fit.compute.seconds_per_call, 0);
  EXPECT_EQ(fit.seconds_per_sequence, 0);
  EXPECT_GT(fit.compute.rms_relative_error, 0.01);  // which have to be somewhere
}

TEST(StepFit, SaysWhatCannotBeFitted)  // Errors
{
  ballast::random_source random(6);
  auto const steps = draw_step_log(random, 8);
  auto const refused = [&](auto change) {
    auto wrong = steps;
    change(wrong[3]);
    auto const fit = fit_steps(wrong, step_of_3072, all_terms);
    if (fit) { return std::string("none"); }
    EXPECT_EQ(fit.error().position, 3U);
    return fit.error().message;
  };
  EXPECT_THAT(refused([](auto& step) { step.length_sum = 0; }), HasSubstr("step 3 has 0 tokens"));
  EXPECT_THAT(refused([](auto& step) { step.gpus = 0; }), HasSubstr("on 0 GPUs"));
  EXPECT_THAT(refused([](auto& step) { step.sequences = 0; }), HasSubstr("in 0 sequences"));
  EXPECT_THAT(refused([](auto& step) { step.square_sum = 7; }), HasSubstr("add up to 7, which"));
  for (double const time : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(refused([&](auto& step) { step.seconds = time; }), HasSubstr("no positive"));
  }
  auto const message = [](auto const& log, step_fit::terms const& terms) {
    return fit_steps(log, step_of_3072, terms).error().message;
  };
  EXPECT_THAT(message(std::span(steps).first(4), all_terms), HasSubstr("5 terms need at least"));
  EXPECT_THAT(message(std::span(steps), {.gamma = -1}), HasSubstr("gamma is negative"));
  auto alike = steps;
  for (auto& step : alike) { step.seconds = 1; }
  EXPECT_THAT(message(std::span(alike), all_terms), HasSubstr("do not grow with the tokens"));
  EXPECT_DEATH((void)fit_steps(steps, {.linear = 1}), "the coefficients 1 and 0,");
}

TEST(StepFit, FitsWhatATableSays)
{
  // [fit_steps]
  // Mean steps of four layouts on mixed resolutions: tokens of the busiest bag, their squares,
  // sequences, GPUs, seconds (KnapFormer, Table 1).
  std::array<ballast::step_fit::measurement, 4> const measured = {
      {{17120, 293'115'563, 1, 1, 4.62},
       {17120, 293'115'563, 1, 2, 2.92},
       {34031, 326'556'824, 14, 4, 2.62},
       {67882, 652'467'004, 28, 8, 2.52}}};
  auto const layers = ballast::forward_flops(ballast::classic_transformer(3072, 57)).value();
  auto const step = ballast::step_flops(layers, {.recompute = 1}).value();
  auto const fit = ballast::fit_steps(measured, step, {.gamma = 0.405}).value();
  auto const cost = fit.cost(step).value();  // in nanoseconds
  // 256 TFLOP/s, 77 us an exchanged token; fit.misfits(measured, step) has two lines of the four.
  // [fit_steps]
  EXPECT_NEAR(1e-12 / fit.compute.seconds_per_flop, 256, 1);
  EXPECT_NEAR(fit.seconds_per_exchanged_token, 77e-6, 1e-6);
  EXPECT_EQ(fit.misfits(measured, step).size(), 2U);  // 7.2 % below and 5.1 % above
  EXPECT_NEAR(static_cast<double>(cost(17120)), 4.76e9, 0.02e9);
}

}  // namespace
