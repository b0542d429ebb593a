// Table 1 of K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
// Transformers Training", arXiv 2508.06001, 2025: workload imbalance ratios of three training mixes
// on 32 GPUs, without a balancer and with four bag layouts. The caption says gamma = 0.49; the
// figures are those of about 0.405, which its public simulator is run with.

#include "on_page.hpp"

#include <ballast/ballast.hpp>
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/partition.hpp>
#include <ballast/report.hpp>
#include <ballast/workload.hpp>

namespace {

using ballast::tokens;

constexpr std::array<char const*, 4> bag_names = {"g1n32", "g2n16", "g4n8", "g8n4"};

using five_cells = std::array<double, 5>;  // without a balancer, then with these bags

struct row {
  char const* mix;
  char const* codes;
  five_cells imbalance;
  five_cells seconds;
  five_cells hfu;     // in per cent
  five_cells tokens;  // thousands per second
};

std::vector<row> const table = {{"LowRes",
                                 "g32b32i256f1s0",
                                 {1.22, 1.00, 1.00, 1.00, 1.00},
                                 {3.13, 2.95, 3.30, 3.51, 4.30},
                                 {24.72, 26.20, 23.40, 22.04, 17.96},
                                 {147.63, 156.48, 139.77, 131.63, 107.28}},
                                {"MixedRes",
                                 "g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0",
                                 {17.14, 3.92, 1.27, 1.01, 1.00},
                                 {4.64, 4.62, 2.92, 2.62, 2.52},
                                 {14.54, 14.63, 23.10, 25.74, 26.81},
                                 {58.58, 58.95, 93.08, 103.74, 108.06}},
                                {"JointImageVideo",
                                 "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,"
                                 "g1b10i256f4s0,g3b1i512f4s0,g8b2i256f85s1,g4b1i512f85s1",
                                 {28.11, 4.61, 1.62, 1.00, 1.00},
                                 {8.05, 8.11, 4.71, 3.55, 3.44},
                                 {12.69, 12.60, 21.68, 28.78, 29.74},
                                 {45.88, 45.56, 78.40, 104.07, 107.54}}};

class KnapformerTable1 : public testing::TestWithParam<row> {};

TEST_P(KnapformerTable1, ComesOutWithinTwoAndAHalfPercent)
{
  constexpr std::size_t gpus = 32;
  constexpr int batches = 100;
  constexpr double tolerance = 0.025;
  auto const spec = ballast::parse_cost_spec("transformer:d=3072,gamma=0.405").value();
  auto const codes = ballast::parse_data_codes(GetParam().codes).value();
  auto const machines = ballast::cluster_of(gpus).value();
  std::vector<ballast::bag_layout> layouts;
  for (char const* const bags : bag_names) {
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
      auto const plan = ballast::partition(step.lengths, layouts[layout], spec.cost, {},
                                           ballast::greedy_knapsack{});
      ASSERT_TRUE(plan) << plan.error().message;
      with[layout] += ballast::report::measure_balance(plan->loads, layouts[layout].sizes())
                          .imbalance_ratio()
                          .value();
    }
  }
  std::printf("measured (paper): %s, no balancer %.2f (%.2f)", GetParam().mix, without / batches,
              GetParam().imbalance[0]);
  EXPECT_NEAR(without / batches / GetParam().imbalance[0], 1.0, tolerance);
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    std::printf(", %s %4.2f (%4.2f)", bag_names[layout], with[layout] / batches,
                GetParam().imbalance[layout + 1]);
    EXPECT_NEAR(with[layout] / batches / GetParam().imbalance[layout + 1], 1.0, tolerance);
  }
  std::puts("");
  ballast_test::expect_on_page(
      ballast_test::figures({without / batches, with[0] / batches, with[1] / batches,
                             with[2] / batches, with[3] / batches}));
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
  for (std::size_t cell = 0; cell < 5; ++cell) {
    double const paper_hfu = GetParam().hfu[cell];
    double const paper_tokens = GetParam().tokens[cell];
    auto const step = ballast::report::measure_step(work, batches * GetParam().seconds[cell], peak);
    std::printf(", HFU %.2f (%.2f) tokens %.2f (%.2f)", 100 * step.hfu, paper_hfu,
                step.tokens_per_second / 1000, paper_tokens);
    EXPECT_NEAR(100 * step.hfu / paper_hfu, 1, 0.01);
    EXPECT_NEAR(step.tokens_per_second / 1000 / paper_tokens, 1, 0.01);
  }
  std::puts("");
}

INSTANTIATE_TEST_SUITE_P(Mixes, KnapformerTable1, testing::ValuesIn(table),
                         [](auto const& mix) { return std::string(mix.param.mix); });

// Forward-backward latencies (FBL): a rate and a time per exchanged token, fitted to the four
// balanced cells of one mix, foretell the cells of all three.
struct measured_cells {
  std::vector<std::vector<ballast::sample_batch>> batches;          // by mix
  std::vector<std::vector<ballast::step_fit::measurement>> of_mix;  // with bags, by mix and layout
  std::vector<std::vector<ballast::step_fit::measurement>> without_bags;  // by mix and batch
  ballast::flop_polynomial flops;
};

void add_sample(ballast::step_fit::measurement& step, tokens length)
{
  step.length_sum += length;
  step.square_sum += static_cast<std::uint64_t>(length * length);
  ++step.sequences;
}

// The busiest GPU or bag, by the work of a GPU in it.
ballast::step_fit::measurement const& busiest_of(
    std::vector<ballast::step_fit::measurement> const& bags, ballast::cost_spec const& spec)
{
  auto const work = [&spec](ballast::step_fit::measurement const& bag) {
    return (static_cast<double>(spec.forward.linear) * static_cast<double>(bag.length_sum) +
            spec.gamma * static_cast<double>(spec.forward.quadratic) *
                static_cast<double>(bag.square_sum)) /
           bag.gpus;
  };
  return *std::ranges::max_element(bags, {}, work);
}

measured_cells read_cells(ballast::cost_spec const& spec)
{
  constexpr std::size_t batches = 100;
  measured_cells cells;
  cells.flops = ballast::step_flops(spec.forward, spec.passes).value();
  for (row const& mix : table) {
    auto const codes = ballast::parse_data_codes(mix.codes).value();
    ballast::random_source random(2508'06001);
    auto& drawn = cells.batches.emplace_back();
    auto& as_read = cells.without_bags.emplace_back();
    for (std::size_t batch = 0; batch < batches; ++batch) {
      drawn.push_back(ballast::draw_batch(codes, 32, {}, random).value());
      std::vector<ballast::step_fit::measurement> gpus(32);
      for (std::size_t sample = 0; sample < drawn.back().lengths.size(); ++sample) {
        add_sample(gpus[to_index(drawn.back().source[sample])], drawn.back().lengths[sample]);
      }
      as_read.push_back(busiest_of(gpus, spec));
    }
    auto& with_bags = cells.of_mix.emplace_back();
    for (std::size_t layout = 0; layout < bag_names.size(); ++layout) {
      auto const bags =
          ballast::lay_out(ballast::parse_bags(bag_names[layout]).value(), 32).value();
      // A cell is a mean of steps, so it has the mean of their busiest bags.
      ballast::step_fit::measurement mean{.gpus = bags.sizes().front(),
                                          .seconds = mix.seconds[layout + 1]};
      for (auto const& step : drawn) {
        auto const plan =
            ballast::partition(step.lengths, bags, spec.cost, {}, ballast::greedy_knapsack{})
                .value();
        std::vector<ballast::step_fit::measurement> of_bags(bags.size(), {.gpus = mean.gpus});
        for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
          add_sample(of_bags[to_index(plan.owner[sample])], step.lengths[sample]);
        }
        auto const& busiest = busiest_of(of_bags, spec);
        mean.length_sum += busiest.length_sum;
        mean.square_sum += busiest.square_sum;
        mean.sequences += busiest.sequences;
      }
      mean.length_sum /= batches;
      mean.square_sum /= batches;
      mean.sequences /= batches;
      with_bags.push_back(mean);
    }
  }
  return cells;
}

// What a fit says of the five cells of a mix, which choose_bags judges on these batches.
five_cells foretold(ballast::step_fit const& fit, measured_cells const& cells, std::size_t mix)
{
  five_cells seconds{};
  for (auto const& step : cells.without_bags[mix]) {
    seconds[0] +=
        fit.seconds(cells.flops, step) / static_cast<double>(cells.without_bags[mix].size());
  }
  auto const chosen =
      ballast::choose_bags(std::span(cells.batches[mix]).first(8), ballast::cluster_of(32).value(),
                           ballast::price_bag_exchanges(fit).value(), fit.cost(cells.flops).value(),
                           {.judged_on = cells.batches[mix]})
          .value();
  for (ballast::bag_choice::judged_mix const& each : chosen.mixes) {
    if (!each.mix.is_uniform()) { continue; }
    std::uint32_t const gpus = each.mix.spec().groups().front().gpus;
    seconds[static_cast<std::size_t>(std::bit_width(gpus))] = each.judged_step.value() * 1e-9;
  }
  return seconds;
}

TEST(KnapformerStepTimes, AreWhatAFitToFourCellsForetells)
{
  auto const spec =
      ballast::parse_cost_spec("transformer:d=3072,layers=57,heads=24,recompute=1,gamma=0.405")
          .value();
  auto const cells = read_cells(spec);
  for (std::size_t fitted = 0; fitted < table.size(); ++fitted) {
    auto const fit =
        ballast::fit_steps(cells.of_mix[fitted], cells.flops, {.gamma = spec.gamma}).value();
    std::printf("fitted to %s: %.0f TFLOP/s, %.1f us per exchanged token\n", table[fitted].mix,
                1e-12 / fit.compute.seconds_per_flop, 1e6 * fit.seconds_per_exchanged_token);
    for (std::size_t mix = 0; mix < table.size(); ++mix) {
      auto const times = foretold(fit, cells, mix);
      auto const& paper = table[mix].seconds;
      std::printf("foretold (paper): %s, no balancer %.2f (%.2f)", table[mix].mix, times[0],
                  paper[0]);
      for (std::size_t cell = 1; cell < times.size(); ++cell) {
        std::printf(", %s %.2f (%.2f)", bag_names[cell - 1], times[cell], paper[cell]);
      }
      std::puts("");
      if (table[fitted].mix != std::string("MixedRes")) { continue; }
      ballast_test::expect_on_page(ballast_test::figures(times) + " s");
      for (std::size_t cell = 0; cell < times.size(); ++cell) {
        EXPECT_NEAR(times[cell] / paper[cell], 1, 0.12) << table[mix].mix << ' ' << cell;
        for (std::size_t other = 1; cell > 0 && other < times.size(); ++other) {
          if (paper[cell] > 1.05 * paper[other]) {
            EXPECT_GT(times[cell], times[other]) << table[mix].mix << ' ' << cell;
          } else if (paper[cell] > paper[other] && times[cell] < times[other]) {
            std::printf("swapped in %s: %s and %s\n", table[mix].mix, bag_names[other - 1],
                        bag_names[cell - 1]);
          }
        }
      }
    }
  }
}

}  // namespace
