// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/step_metrics.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/cost/transformer_shape.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::tokens;
using ballast::report::measure_stages;
using ballast::report::measure_step;
using ballast::report::measure_work;
using ballast::report::step_metrics;
using ballast::report::step_work;

using stage_values = std::vector<double>;

static_assert(std::regular<step_work>);
static_assert(std::regular<step_metrics>);
static_assert(std::regular<ballast::report::stage_rates>);

TEST(StepMetrics, CountThreeForwardPassesAndFourWithRecomputation)
{
  // [step]
  // A step of three samples that took half a second on eight H100 (dense bf16).
  std::vector<ballast::tokens> const lengths = {8192, 4096, 1024};
  auto const forward = ballast::forward_flops(ballast::classic_transformer(4096, 32)).value();
  auto const computed =
      ballast::report::measure_work(lengths, forward, ballast::training_passes{.recompute = 1})
          .value();
  auto const step = ballast::report::measure_step(computed, 0.5, 8 * 989.4e12);
  EXPECT_DOUBLE_EQ(step.tokens_per_second, 26'624);
  EXPECT_NEAR(step.mfu, 0.1638, 5e-5);  // three forward passes
  EXPECT_NEAR(step.hfu, 0.2184, 5e-5);  // four
  // [step]
  double once = 0;
  for (tokens const length : lengths) { once += ballast::flops(forward, length); }
  EXPECT_DOUBLE_EQ(step.seconds, 0.5);
  EXPECT_DOUBLE_EQ(step.mfu, 3 * once / (4 * 989.4e12));
  EXPECT_DOUBLE_EQ(step.hfu, 4 * once / (4 * 989.4e12));
}

TEST(StepMetrics, OfWorkAreThatOfItsModules)
{
  std::vector<tokens> const text = {100, 200};
  std::vector<tokens> const patches = {1000};
  ballast::flop_polynomial const llm{.linear = 50, .quadratic = 3};
  ballast::flop_polynomial const encoder{.linear = 7, .quadratic = 1};
  auto const of_llm = measure_work(text, llm, {.recompute = 1}).value();
  EXPECT_EQ(of_llm.length, 300);
  EXPECT_EQ(of_llm.model_flops, 3 * (50 * 300 + 3 * 50'000));
  EXPECT_EQ(of_llm.hardware_flops, 4 * (50 * 300 + 3 * 50'000));
  // A frozen encoder that nothing trains below has the forward pass alone, and nothing again.
  auto const of_encoder =
      measure_work(patches, encoder, frozen({.recompute = 1}, ballast::frozen_gradient::stops))
          .value();
  EXPECT_EQ(of_encoder.model_flops, 7 * 1000 + 1'000'000);
  EXPECT_EQ(of_encoder.hardware_flops, of_encoder.model_flops);
}

TEST(StepMetrics, OfNoSamplesAreNone)
{
  auto const step = measure_step(measure_work({}, {.linear = 1}, {}).value(), 2, 1e12);
  EXPECT_EQ(step, (step_metrics{.seconds = 2}));
}

TEST(StepMetrics, AreRefusedWhereAPassDoesNotFit)
{
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::vector<tokens> const lengths = {1};
  EXPECT_TRUE(measure_work(lengths, {.linear = most / 3}, {}));
  EXPECT_EQ(measure_work(lengths, {.linear = most / 3}, {.recompute = 1}).error().code,
            ballast::error_code::out_of_range);
}

TEST(StepMetricsDeathTest, NeedTimeAndPeak)
{
  EXPECT_DEATH((void)measure_step({}, 0, 1), "the step takes 0 seconds");
  EXPECT_DEATH((void)measure_step({}, 1, 0), "the GPUs can do 0 FLOP/s");
}

TEST(StageRates, LeaveOutWhatAStageWaits)
{
  // [stages]
  // Two stages in a step of 4 s: both compute 12 FLOP per second, although one waits half the time.
  std::vector<double> const flops = {48, 24};
  std::vector<double> const idle = {0, 2};
  auto const rates = ballast::report::measure_stages(flops, idle, 4);
  EXPECT_EQ(rates.flops_per_second, (std::vector<double>{12, 12}));
  EXPECT_EQ(rates.mean, 12);
  EXPECT_EQ(rates.spread, 0);
  // [stages]
}

TEST(StageRates, SayHowFarApartStagesAre)
{
  auto const rates = measure_stages(stage_values{40, 80, 60}, stage_values{0, 0, 5}, 10);
  EXPECT_EQ(rates.flops_per_second, (stage_values{4, 8, 12}));
  EXPECT_DOUBLE_EQ(rates.mean, 8);
  EXPECT_DOUBLE_EQ(rates.spread, std::sqrt(32.0 / 3));
  auto const one = measure_stages(stage_values{40}, stage_values{6}, 10);
  EXPECT_DOUBLE_EQ(one.mean, 10);
  EXPECT_EQ(one.spread, 0);
}

TEST(StageRates, ScaleWithTheWork)
{
  ballast::random_source random(14);
  for (int trial = 0; trial < 100; ++trial) {
    stage_values flops(1 + random.below(9));
    stage_values idle(flops.size());
    for (std::size_t stage = 0; stage < flops.size(); ++stage) {
      flops[stage] = static_cast<double>(random.below(1000));
      idle[stage] = static_cast<double>(random.below(50));
    }
    auto const before = measure_stages(flops, idle, 64);
    for (double& each : flops) { each *= 4; }
    auto const after = measure_stages(flops, idle, 64);
    EXPECT_DOUBLE_EQ(after.mean, 4 * before.mean);
    EXPECT_DOUBLE_EQ(after.spread, 4 * before.spread);
    EXPECT_LE(before.spread, before.mean * std::sqrt(static_cast<double>(flops.size())));
  }
}

TEST(StageRatesDeathTest, NeedAStageAndTimeToCompute)
{
  EXPECT_DEATH((void)measure_stages(stage_values{}, stage_values{}, 1), "FLOP of 0 stages");
  EXPECT_DEATH((void)measure_stages(stage_values{1}, stage_values{0, 0}, 1), "idle times of 2");
  EXPECT_DEATH((void)measure_stages(stage_values{1}, stage_values{1}, 1),
               "is idle for 1 seconds of a step of 1");
  EXPECT_DEATH((void)measure_stages(stage_values{1}, stage_values{-1}, 1),
               "stage 0 is idle for -1");
}

}  // namespace
