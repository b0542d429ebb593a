// Table 1 of K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
// Transformers Training", arXiv 2508.06001, 2025: workload imbalance ratios of three training mixes
// on 32 GPUs, without a balancer and with four bag layouts. The caption says gamma = 0.49; the
// figures are those of about 0.405, which its public simulator is run with.

#include <gtest/gtest.h>
#include <ballast/ballast.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/report.hpp>
#include <ballast/workload.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using ballast::tokens;

struct measured_step {
  double seconds;
  double hfu;     // in per cent
  double tokens;  // thousands per second
};

struct row {
  char const* mix;
  char const* codes;
  double without_balancer;
  std::vector<double> with_bags;          // g1n32, g2n16, g4n8, g8n4
  std::array<measured_step, 5> measured;  // without a balancer, then with these bags
};

class KnapformerTable1 : public testing::TestWithParam<row> {};

TEST_P(KnapformerTable1, ComesOutWithinTwoAndAHalfPercent)
{
  constexpr std::size_t gpus = 32;
  constexpr int batches = 100;
  constexpr double tolerance = 0.025;
  constexpr std::array<char const*, 4> names = {"g1n32", "g2n16", "g4n8", "g8n4"};
  auto const spec = ballast::parse_cost_spec("transformer:d=3072,gamma=0.405").value();
  auto const codes = ballast::parse_data_codes(GetParam().codes).value();
  auto const machines = ballast::cluster_of(gpus).value();
  std::vector<ballast::bag_layout> layouts;
  for (char const* const bags : names) {
    layouts.push_back(ballast::lay_out(ballast::parse_bags(bags).value(), machines).value());
  }

  ballast::random_source random(2508'06001);
  double without = 0;
  std::vector<double> with(layouts.size(), 0.0);
  for (int batch = 0; batch < batches; ++batch) {
    auto const step = ballast::draw_batch(codes, gpus, {}, random).value();
    std::vector<ballast::cost_units> costs;
    for (tokens const length : step.lengths) { costs.push_back(spec.cost(length)); }
    without += ballast::report::measure_as_read(step, costs, gpus).imbalance_ratio().value();
    for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
      auto const plan =
          ballast::partition(step.lengths, layouts[layout], ballast::greedy_knapsack{}, spec.cost);
      ASSERT_TRUE(plan) << plan.error().message;
      with[layout] += ballast::report::measure_balance(plan->loads, layouts[layout].sizes())
                          .imbalance_ratio()
                          .value();
    }
  }
  std::printf("measured (paper): %s, no balancer %.2f (%.2f)", GetParam().mix, without / batches,
              GetParam().without_balancer);
  EXPECT_NEAR(without / batches / GetParam().without_balancer, 1.0, tolerance);
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    std::printf(", %s %4.2f (%4.2f)", names[layout], with[layout] / batches,
                GetParam().with_bags[layout]);
    EXPECT_NEAR(with[layout] / batches / GetParam().with_bags[layout], 1.0, tolerance);
  }
  std::puts("");
}

TEST_P(KnapformerTable1, HasTheUtilizationThatItsStepTimesMean)
{
  constexpr std::size_t gpus = 32;
  constexpr int batches = 100;
  constexpr double peak = gpus * 989.4e12;  // H100, dense bf16
  auto const codes = ballast::parse_data_codes(GetParam().codes).value();
  // 57 blocks of width 3072, recomputed in the backward pass. FLOP count, so gamma plays no part.
  auto const forward = ballast::forward_flops(ballast::known_shape("flux")).value();

  ballast::random_source random(2508'06001);
  std::vector<tokens> lengths;  // of all batches: their mean is that of their sum
  for (int batch = 0; batch < batches; ++batch) {
    auto const step = ballast::draw_batch(codes, gpus, {}, random).value();
    lengths.insert(lengths.end(), step.lengths.begin(), step.lengths.end());
  }
  auto const work = ballast::report::measure_work(lengths, forward, {.recompute = 1}).value();
  std::printf("measured (paper): %s", GetParam().mix);
  for (measured_step const& paper : GetParam().measured) {
    auto const step = ballast::report::measure_step(work, batches * paper.seconds, peak);
    std::printf(", HFU %.2f (%.2f) tokens %.2f (%.2f)", 100 * step.hfu, paper.hfu,
                step.tokens_per_second / 1000, paper.tokens);
    EXPECT_NEAR(100 * step.hfu / paper.hfu, 1, 0.01);
    EXPECT_NEAR(step.tokens_per_second / 1000 / paper.tokens, 1, 0.01);
  }
  std::puts("");
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, KnapformerTable1,
    testing::Values(row{"LowRes",
                        "g32b32i256f1s0",
                        1.22,
                        {1.00, 1.00, 1.00, 1.00},
                        {{{3.13, 24.72, 147.63},
                          {2.95, 26.20, 156.48},
                          {3.30, 23.40, 139.77},
                          {3.51, 22.04, 131.63},
                          {4.30, 17.96, 107.28}}}},
                    row{"MixedRes",
                        "g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0",
                        17.14,
                        {3.92, 1.27, 1.01, 1.00},
                        {{{4.64, 14.54, 58.58},
                          {4.62, 14.63, 58.95},
                          {2.92, 23.10, 93.08},
                          {2.62, 25.74, 103.74},
                          {2.52, 26.81, 108.06}}}},
                    row{"JointImageVideo",
                        "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,"
                        "g1b10i256f4s0,g3b1i512f4s0,g8b2i256f85s1,g4b1i512f85s1",
                        28.11,
                        {4.61, 1.62, 1.00, 1.00},
                        {{{8.05, 12.69, 45.88},
                          {8.11, 12.60, 45.56},
                          {4.71, 21.68, 78.40},
                          {3.55, 28.78, 104.07},
                          {3.44, 29.74, 107.54}}}}),
    [](auto const& mix) { return std::string(mix.param.mix); });

}  // namespace
