// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/parallelism/cut_chain.hpp>

namespace cut_chain_bench {

using ballast::chain_layer;

// A vision tower of 24 small layers, an embedding, and an LLM of 80 with a head of 2.6 layers; or
// layers that are all different.
std::vector<chain_layer> model_of(std::int64_t kind)
{
  std::vector<chain_layer> layers;
  if (kind == 0) {
    layers.assign(24, {.cost = 310});
    layers.push_back({.cost = 90});
    layers.insert(layers.end(), 80, {.cost = 1000});
    layers.push_back({.cost = 2600});
    return layers;
  }
  ballast::random_source random(5);
  for (int at = 0; at < 128; ++at) { layers.push_back({.cost = random.between(200, 2000)}); }
  return layers;
}

// What trainers do: as many layers for each stage.
std::int64_t largest_of_equal_counts(std::vector<chain_layer> const& layers, std::size_t ranks,
                                     std::size_t chunks)
{
  std::vector<std::int64_t> loads(ranks, 0);
  for (std::size_t at = 0; at < layers.size(); ++at) {
    loads[at * ranks * chunks / layers.size() % ranks] += layers[at].cost;
  }
  return *std::max_element(loads.begin(), loads.end());
}

// `gap` of the cut and of as many layers for each stage, above the bound.
void cut(benchmark::State& state)
{
  auto const layers = model_of(state.range(0));
  auto const ranks = static_cast<std::size_t>(state.range(1));
  auto const chunks = static_cast<std::size_t>(state.range(2));
  ballast::chain_cut plan;
  for (auto _ : state) {
    plan = ballast::cut_chain(layers, {.ranks = ranks, .chunks = chunks}).value();
    benchmark::DoNotOptimize(plan);
  }
  auto const bound = static_cast<double>(plan.lower_bound);
  state.counters["gap"] = plan.gap();
  state.counters["gap_of_counts"] =
      static_cast<double>(largest_of_equal_counts(layers, ranks, chunks)) / bound - 1;
}
BENCHMARK(cut)
    ->Name("cut_chain")
    ->ArgNames({"model", "ranks", "chunks"})
    ->ArgsProduct({{0, 1}, {4, 8, 16}, {1, 2, 4}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace cut_chain_bench
