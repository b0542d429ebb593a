// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/metrics.hpp>

#include "../support/test.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;
using ballast::report::measure_balance;
using ballast::report::measure_stages;
using ballast::report::measure_step;
using ballast::report::measure_work;
using ballast::report::step_metrics;
using ballast::report::step_work;

using bag_loads = std::vector<cost_units>;
using sizes = std::vector<std::uint32_t>;

TEST(BalanceMetrics, CountsEveryGpuOfABagAlike)
{
  // Per GPU: 30, 20, 20, 10, 10, 10, 10; mean 110 / 7.
  auto const metrics = measure_balance(bag_loads{30, 40, 40}, sizes{1, 2, 4});
  EXPECT_DOUBLE_EQ(metrics.heaviest, 30.0);
  EXPECT_DOUBLE_EQ(metrics.lightest, 10.0);
  EXPECT_DOUBLE_EQ(metrics.mean, 110.0 / 7.0);
  EXPECT_DOUBLE_EQ(metrics.imbalance_ratio().value(), 3.0);
  EXPECT_DOUBLE_EQ(metrics.balance_ratio(), 30.0 * 7.0 / 110.0);
  EXPECT_DOUBLE_EQ(metrics.idle_share(), 1.0 - 110.0 / 210.0);
}

TEST(BalanceMetrics, HasNoFiniteImbalanceRatioWhenAGpuHasNoWork)
{
  auto const metrics = measure_balance(bag_loads{8, 0}, sizes{1, 1});
  EXPECT_EQ(metrics.imbalance_ratio(), std::nullopt);
  EXPECT_DOUBLE_EQ(metrics.balance_ratio(), 2.0);
  EXPECT_DOUBLE_EQ(metrics.idle_share(), 0.5);
}

TEST(BalanceMetrics, IsEvenWhenThereIsNoWorkAtAll)
{
  auto const metrics = measure_balance(bag_loads{0, 0}, sizes{1, 2});
  EXPECT_EQ(metrics.imbalance_ratio(), 1.0);
  EXPECT_EQ(metrics.balance_ratio(), 1.0);
  EXPECT_EQ(metrics.idle_share(), 0.0);
}

TEST(BalanceMetrics, CountsTheSamplesThatEveryGpuReadBeforeBalancing)
{
  using ballast::rank_id;
  ballast::sample_batch const batch{.lengths = {1, 1, 1, 1},
                                    .source = {rank_id{0}, rank_id{0}, rank_id{1}, rank_id{2}}};
  auto const metrics = ballast::report::measure_as_read(batch, bag_loads{5, 7, 4, 2}, 3);
  EXPECT_DOUBLE_EQ(metrics.heaviest, 12.0);
  EXPECT_DOUBLE_EQ(metrics.lightest, 2.0);
  EXPECT_DOUBLE_EQ(metrics.mean, 6.0);
  EXPECT_DOUBLE_EQ(ballast::report::measure_as_read(batch, bag_loads{5, 7, 4, 2}, 4).lightest, 0.0);
}

TEST(BalanceMetrics, DividesTheWorkOfAGpuByItsSpeedBeforeBalancingToo)
{
  using ballast::rank_id;
  ballast::sample_batch const batch{.lengths = {1, 1, 1, 1},
                                    .source = {rank_id{0}, rank_id{0}, rank_id{1}, rank_id{2}}};
  bag_loads const costs{5, 7, 4, 2};
  // 12, 4 and 2 units at speeds 4, 2 and 1.
  auto const metrics = ballast::report::measure_as_read(batch, costs, 3, sizes{4, 2, 1});
  EXPECT_DOUBLE_EQ(metrics.heaviest, 3.0);
  EXPECT_DOUBLE_EQ(metrics.lightest, 2.0);
  EXPECT_DOUBLE_EQ(metrics.mean, 18.0 / 7.0);
  auto const alike = ballast::report::measure_as_read(batch, costs, 3, sizes{1, 1, 1});
  EXPECT_DOUBLE_EQ(alike.heaviest, ballast::report::measure_as_read(batch, costs, 3).heaviest);
  // A plan that leaves every sample where it was read has the same figures.
  auto const bags = ballast::one_gpu_bags(3).with_speeds(sizes{4, 2, 1});
  auto const stays = measure_balance(bag_loads{12, 4, 2}, bags.speeds());
  EXPECT_DOUBLE_EQ(metrics.balance_ratio(), stays.balance_ratio());
  EXPECT_DOUBLE_EQ(metrics.idle_share(), stays.idle_share());
}

TEST(BalanceMetricsDeathTest, NeedsASpeedForEveryGpu)
{
  ballast::sample_batch const batch{.lengths = {1}, .source = {ballast::rank_id{0}}};
  EXPECT_DEATH((void)ballast::report::measure_as_read(batch, bag_loads{5}, 2, sizes{1}),
               "speeds of 1 GPU for a step over 2");
  EXPECT_DEATH((void)ballast::report::measure_as_read(batch, bag_loads{5}, 2, sizes{1, 0}),
               "bag 1 has a speed of 0,");
}

TEST(BalanceMetricsDeathTest, NeedsAGpuForEverySampleAndACostForEach)
{
  ballast::sample_batch const batch{.lengths = {1}, .source = {ballast::rank_id{2}}};
  EXPECT_DEATH((void)ballast::report::measure_as_read(batch, bag_loads{5}, 2),
               "sample 0 was read by GPU 2 of 2");
  EXPECT_DEATH((void)ballast::report::measure_as_read(batch, bag_loads{}, 3),
               "costs of 0 samples for a batch of 1");
}

TEST(BalanceMetricsDeathTest, NeedsABagAndMatchingSizes)
{
  EXPECT_DEATH((void)measure_balance(bag_loads{}, sizes{}), "there are no loads");
  EXPECT_DEATH((void)measure_balance(bag_loads{1}, sizes{1, 1}), "loads of 1 bag and speeds of 2");
}

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
  for (tokens const length : lengths) { once += forward.of(length); }
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
      measure_work(patches, encoder,
                   training_passes{.recompute = 1}.frozen(ballast::frozen_gradient::stops))
          .value();
  EXPECT_EQ(of_encoder.model_flops, 7 * 1000 + 1'000'000);
  EXPECT_EQ(of_encoder.hardware_flops, of_encoder.model_flops);
  auto const none = measure_step(measure_work({}, {.linear = 1}, {}).value(), 2, 1e12);
  EXPECT_EQ(none, (step_metrics{.seconds = 2}));
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

TEST(StageRatesDeathTest, NeedAStageAndTimeToCompute)
{
  EXPECT_DEATH((void)measure_stages(stage_values{}, stage_values{}, 1), "FLOP of 0 stages");
  EXPECT_DEATH((void)measure_stages(stage_values{1}, stage_values{0, 0}, 1), "idle times of 2");
  EXPECT_DEATH((void)measure_stages(stage_values{1}, stage_values{1}, 1),
               "is idle for 1 seconds of a step of 1");
  EXPECT_DEATH((void)measure_stages(stage_values{1}, stage_values{-1}, 1),
               "stage 0 is idle for -1");
}

TEST(SlowRanks, AreNamedSlowestFirst)
{
  std::uint32_t const one = ballast::unchanged_factor;
  std::vector<std::uint32_t> const factors{one, one * 5 / 4, one * 9 / 10, one * 102 / 100,
                                           one * 7 / 5};
  EXPECT_EQ(ballast::report::slow_ranks(factors),
            "rank 4 takes 1.40 x as long as planned\nrank 1 takes 1.25 x as long as planned\n");
  for (std::uint32_t const percent : {25U, 30U}) {  // "more than"
    EXPECT_EQ(ballast::report::slow_ranks(factors, percent),
              "rank 4 takes 1.40 x as long as planned\n");
  }
  EXPECT_EQ(ballast::report::slow_ranks({}), "");
}

}  // namespace
