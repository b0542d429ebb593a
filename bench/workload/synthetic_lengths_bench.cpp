#include <benchmark/benchmark.h>
#include <ballast/workload/synthetic_lengths.hpp>

#include <cmath>
#include <random>

namespace {

// Baseline: the standard library's distribution, whose numbers differ from one library to the next.
void std_lognormal(benchmark::State& state)
{
  std::mt19937_64 random(42);
  std::lognormal_distribution<double> draw(std::log(1024.0), 1.0);
  for (auto _ : state) { benchmark::DoNotOptimize(std::llround(draw(random))); }
}

template <class Distribution>
void draw(benchmark::State& state, Distribution distribution)
{
  ballast::random_source random(42);
  for (auto _ : state) { benchmark::DoNotOptimize(distribution(random)); }
}

BENCHMARK(std_lognormal);
BENCHMARK_CAPTURE(draw, lognormal, ballast::lognormal_lengths{.median = 1024, .sigma = 1.0});
BENCHMARK_CAPTURE(draw, pareto,
                  ballast::bounded_pareto_lengths{.shortest = 8, .longest = 1 << 17, .alpha = 1.2});

}  // namespace
