#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths, bench::transformer_cost

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

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

BENCHMARK(floating_point);
BENCHMARK(quadratic_cost);

}  // namespace
