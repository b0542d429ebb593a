#include <ballast/report/metrics.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/topology/bag_layout.hpp>

#include <cstdint>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::report::measure_balance;

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

TEST(BalanceMetrics, IsOneAndIdleFreeWhenEven)
{
  auto const metrics = measure_balance(bag_loads{8, 16, 32}, sizes{1, 2, 4});
  EXPECT_DOUBLE_EQ(metrics.imbalance_ratio().value(), 1.0);
  EXPECT_DOUBLE_EQ(metrics.balance_ratio(), 1.0);
  EXPECT_DOUBLE_EQ(metrics.idle_share(), 0.0);
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

}  // namespace
