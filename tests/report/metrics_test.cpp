#include <ballast/report/metrics.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::measure_balance;

using loads = std::vector<cost_units>;
using sizes = std::vector<std::uint32_t>;

TEST(BalanceMetrics, CountsEveryGpuOfABagAlike)
{
  // Per GPU: 30, 20, 20, 10, 10, 10, 10; mean 110 / 7.
  auto const metrics = measure_balance(loads{30, 40, 40}, sizes{1, 2, 4});
  EXPECT_DOUBLE_EQ(metrics.heaviest, 30.0);
  EXPECT_DOUBLE_EQ(metrics.lightest, 10.0);
  EXPECT_DOUBLE_EQ(metrics.mean, 110.0 / 7.0);
  EXPECT_DOUBLE_EQ(metrics.imbalance_ratio().value(), 3.0);
  EXPECT_DOUBLE_EQ(metrics.balance_ratio(), 30.0 * 7.0 / 110.0);
  EXPECT_DOUBLE_EQ(metrics.idle_share(), 1.0 - 110.0 / 210.0);
}

TEST(BalanceMetrics, IsOneAndIdleFreeWhenEven)
{
  auto const metrics = measure_balance(loads{8, 16, 32}, sizes{1, 2, 4});
  EXPECT_DOUBLE_EQ(metrics.imbalance_ratio().value(), 1.0);
  EXPECT_DOUBLE_EQ(metrics.balance_ratio(), 1.0);
  EXPECT_DOUBLE_EQ(metrics.idle_share(), 0.0);
}

TEST(BalanceMetrics, HasNoFiniteImbalanceRatioWhenAGpuHasNoWork)
{
  auto const metrics = measure_balance(loads{8, 0}, sizes{1, 1});
  EXPECT_EQ(metrics.imbalance_ratio(), std::nullopt);
  EXPECT_DOUBLE_EQ(metrics.balance_ratio(), 2.0);
  EXPECT_DOUBLE_EQ(metrics.idle_share(), 0.5);
}

TEST(BalanceMetrics, IsEvenWhenThereIsNoWorkAtAll)
{
  auto const metrics = measure_balance(loads{0, 0}, sizes{1, 2});
  EXPECT_EQ(metrics.imbalance_ratio(), 1.0);
  EXPECT_EQ(metrics.balance_ratio(), 1.0);
  EXPECT_EQ(metrics.idle_share(), 0.0);
}

TEST(BalanceMetricsDeathTest, NeedsABagAndMatchingSizes)
{
  EXPECT_DEATH((void)measure_balance(loads{}, sizes{}), "!loads.empty");
  EXPECT_DEATH((void)measure_balance(loads{1}, sizes{1, 1}), "loads.size");
}

TEST(FlopsUtilization, CountsThreeForwardsAndFourWithRecomputation)
{
  // 100 TFLOP forward in 2 s on 8 GPUs of 989 TFLOP/s.
  double const peak = 8 * 989e12;
  EXPECT_DOUBLE_EQ(ballast::model_flops_utilization(1e14, 2.0, peak), 3e14 / (2.0 * peak));
  EXPECT_DOUBLE_EQ(ballast::hardware_flops_utilization(1e14, 2.0, peak), 4e14 / (2.0 * peak));
}

}  // namespace
