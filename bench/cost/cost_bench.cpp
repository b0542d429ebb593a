#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths, bench::transformer_cost

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/latency_fit.hpp>

#include <cmath>

namespace {

constexpr std::size_t priced_samples = 4096;

// Baseline: the formula in floating point, which compilers and flags may round differently.
void floating_point(benchmark::State& state)
{
  auto const lengths = bench::lognormal_lengths(priced_samples, 1.0, /*seed=*/42);
  std::vector<double> costs(priced_samples);
  double const d = 3072;
  for (auto _ : state) {
    for (std::size_t sample = 0; sample < priced_samples; ++sample) {
      auto const l = static_cast<double>(lengths[sample]);
      costs[sample] = 24 * l * d * d + 0.405 * 4 * l * l * d;
    }
    benchmark::DoNotOptimize(costs.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(priced_samples));
}

void quadratic_cost(benchmark::State& state)
{
  auto const lengths = bench::lognormal_lengths(priced_samples, 1.0, /*seed=*/42);
  auto const cost = bench::transformer_cost();
  std::vector<ballast::cost_units> costs(priced_samples);
  for (auto _ : state) {
    for (std::size_t sample = 0; sample < priced_samples; ++sample) {
      costs[sample] = cost(lengths[sample]);
    }
    benchmark::DoNotOptimize(costs.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(priced_samples));
  // How far the integers are from the formula, where that is farthest.
  auto const priced = ballast::gamma_corrected({24ULL * 3072 * 3072, 4ULL * 3072}, 0.405).value();
  double worst = 0;
  for (auto const length : lengths) {
    auto const l = static_cast<double>(length);
    double const flops = 24 * l * 3072 * 3072 + 0.405 * 4 * l * l * 3072;
    double const ours = std::ldexp(static_cast<double>(cost(length)), priced.log2_flops_per_unit);
    worst = std::max(worst, std::abs(ours / flops - 1));
  }
  state.counters["relative_error"] = worst;
}

// Throughput that saturates, as profiles have it, at 13 lengths.
ballast::interpolated_throughput measured_throughput()
{
  std::vector<ballast::tokens> lengths;
  std::vector<double> per_second;
  for (ballast::tokens length = 64; length <= 262'144; length *= 2) {
    lengths.push_back(length);
    per_second.push_back(400e12 * static_cast<double>(length) /
                         (1000 + static_cast<double>(length)));
  }
  return ballast::interpolated_throughput::make(lengths, per_second).value();
}

// Baseline of packs: every sample at its own length, as if each were a call.
void interpolated_cost(benchmark::State& state)
{
  auto const lengths = bench::lognormal_lengths(priced_samples, 1.0, /*seed=*/42);
  ballast::interpolated_cost const cost{.linear = measured_throughput(),
                                        .attention = measured_throughput(),
                                        .flops = {24ULL * 3072 * 3072, 4ULL * 3072}};
  for (auto _ : state) {
    ballast::cost_units sum = 0;
    for (auto const length : lengths) { sum += cost(length); }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(priced_samples));
}

// Packs of 16 samples.
void packed_cost(benchmark::State& state)
{
  constexpr std::size_t pack = 16;
  auto const lengths = bench::lognormal_lengths(priced_samples, 1.0, /*seed=*/42);
  ballast::interpolated_cost const cost{.linear = measured_throughput(),
                                        .attention = measured_throughput(),
                                        .flops = {24ULL * 3072 * 3072, 4ULL * 3072}};
  for (auto _ : state) {
    ballast::cost_units sum = 0;
    for (std::size_t first = 0; first < priced_samples; first += pack) {
      sum += cost(std::span(lengths).subspan(first, pack));
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(priced_samples));
}

// As many measurements as a profile has, a tenth of them disturbed.
void fit_latency(benchmark::State& state)
{
  ballast::flop_polynomial const layer{24ULL * 3072 * 3072, 4ULL * 3072};
  std::vector<ballast::gamma_fit::measurement> measured;
  for (std::size_t i = 0; i < static_cast<std::size_t>(state.range(0)); ++i) {
    ballast::tokens const length = 256 << (i % 8);
    auto const l = static_cast<double>(length);
    double const seconds = 50e-6 + 2.5e-15 * (24 * l * 3072 * 3072 + 0.405 * 4 * l * l * 3072);
    measured.push_back({length, seconds * (i % 10 == 9 ? 10 : 1)});
  }
  for (auto _ : state) {
    auto fit = ballast::fit_latency(measured, layer);
    benchmark::DoNotOptimize(fit);
  }
  state.counters["gamma_error"] =
      std::abs(ballast::fit_latency(measured, layer).value().gamma - 0.405);
}

// A log of steps on bags of 1 to 8 GPUs, a tenth of them disturbed, and all five terms.
void fit_steps(benchmark::State& state)
{
  ballast::flop_polynomial const step{24ULL * 3072 * 3072 * 228, 4ULL * 3072 * 228};
  ballast::random_source random(1);
  std::vector<ballast::step_fit::measurement> measured(static_cast<std::size_t>(state.range(0)));
  constexpr ballast::step_fit truth{
      .compute = {.seconds_per_flop = 1 / 260e12, .gamma = 0.405, .seconds_per_call = 0.3},
      .seconds_per_exchanged_token = 70e-6,
      .seconds_per_sequence = 2e-3};
  for (std::size_t i = 0; i < measured.size(); ++i) {
    measured[i].gpus = 1U << random.below(4);
    measured[i].sequences = static_cast<std::uint32_t>(1 + random.below(40));
    auto const longest = random.between(200, 20'000);
    for (std::uint32_t sequence = 0; sequence < measured[i].sequences; ++sequence) {
      auto const length = random.between(longest / 2, longest);
      measured[i].length_sum += length;
      measured[i].square_sum += static_cast<std::uint64_t>(length * length);
    }
    measured[i].seconds = truth.seconds(step, measured[i]) * (i % 10 == 9 ? 10 : 1);
  }
  ballast::step_fit::terms const all{.gamma = {}, .sequences = true, .steps = true};
  for (auto _ : state) {
    auto fit = ballast::fit_steps(measured, step, all);
    benchmark::DoNotOptimize(fit);
  }
  auto const fit = ballast::fit_steps(measured, step, all).value();
  state.counters["rate_error"] = std::abs(fit.compute.seconds_per_flop * 260e12 - 1);
  state.counters["token_error"] = std::abs(fit.seconds_per_exchanged_token / 70e-6 - 1);
}

BENCHMARK(floating_point);
BENCHMARK(quadratic_cost);
BENCHMARK(interpolated_cost);
BENCHMARK(packed_cost);
BENCHMARK(fit_latency)->ArgName("measurements")->Arg(16)->Arg(160)->Arg(1600);
BENCHMARK(fit_steps)->ArgName("measurements")->Arg(20)->Arg(200)->Arg(2000);

}  // namespace
