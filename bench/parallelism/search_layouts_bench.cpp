// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/all_layouts.hpp"     // defines: ballast_test::all_layouts
#include "../../tests/support/random_modules.hpp"  // defines: ballast_test::draw_model

#include <benchmark/benchmark.h>
#include <ballast/core/random.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

constexpr std::uint64_t memory_of_gpu = std::uint64_t{80} << 30;

// Models drawn at random: an encoder and an LLM of 24 to 80 layers.
std::vector<ballast_test::random_model> models(std::size_t count, std::size_t samples)
{
  ballast::random_source random(2048);
  std::vector<ballast_test::random_model> drawn;
  for (std::size_t model = 0; model < count; ++model) {
    drawn.push_back(ballast_test::draw_model(random, 2, samples, true, memory_of_gpu));
  }
  return drawn;
}

ballast::layout_problem problem_of(ballast_test::random_model const& model, std::int64_t gpus,
                                   std::uint32_t batch)
{
  ballast::layout_problem problem;
  problem.modules = model.modules;
  problem.sizes = model.sizes;
  problem.global_batch = batch;
  problem.gpus = static_cast<std::uint32_t>(gpus);
  problem.memory_bytes = memory_of_gpu;
  return problem;
}

// 20 models in turn, of which some fit.
void search(benchmark::State& state, ballast::step_estimate estimate)
{
  auto const drawn = models(20, 256);
  std::vector<ballast::layout_problem> problems;
  double evaluated = 0;
  double feasible = 0;
  for (auto const& model : drawn) {
    problems.push_back(problem_of(model, state.range(0), 2048));
    problems.back().estimate = estimate;
    auto const found = ballast::search_layouts(problems.back());
    evaluated += found ? static_cast<double>(found->evaluated) : 0;
    feasible += found ? 1 : 0;
  }
  state.counters["feasible"] = feasible;
  state.counters["evaluated"] = evaluated / feasible;
  std::size_t next = 0;
  for (auto _ : state) {
    auto const found = ballast::search_layouts(problems[next++ % problems.size()]);
    benchmark::DoNotOptimize(found);
  }
}

BENCHMARK_CAPTURE(search, mean_sample, ballast::step_estimate::mean_sample)
    ->Name("search_layouts/mean_sample")
    ->ArgName("gpus")
    ->Arg(64)
    ->Arg(1024)
    ->Arg(16'384)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, mean_step, ballast::step_estimate::mean_step)
    ->Name("search_layouts/mean_step")
    ->ArgName("gpus")
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

// The baseline: every tp, pp, dp and number of microbatches, as the published search does.
void try_all(benchmark::State& state)
{
  auto const drawn = models(4, 256);
  std::size_t next = 0;
  for (auto _ : state) {
    auto const all =
        ballast_test::all_layouts(problem_of(drawn[next++ % drawn.size()], state.range(0), 64));
    benchmark::DoNotOptimize(all.data());
  }
}
BENCHMARK(try_all)
    ->Name("search_layouts/try_all")
    ->ArgName("gpus")
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

// Searches that do not return what trying all layouts returns: none. Batches of 64, 16 samples,
// both estimates, the best three; every number of GPUs up to `gpus`, or that number alone.
void differs_from_all(benchmark::State& state)
{
  auto const last = state.range(0);
  auto const drawn = models(static_cast<std::size_t>(state.range(1)), 16);
  double searches = 0;
  double feasible = 0;
  double wrong = 0;
  for (auto _ : state) {
    for (auto const& model : drawn) {
      for (std::int64_t gpus = last <= 64 ? 1 : last; gpus <= last; ++gpus) {
        for (auto const estimate :
             {ballast::step_estimate::mean_sample, ballast::step_estimate::mean_step}) {
          auto problem = problem_of(model, gpus, 64);
          problem.estimate = estimate;
          auto expected = ballast_test::all_layouts(problem);
          expected.resize(std::min<std::size_t>(expected.size(), 3));
          auto const found = ballast::search_layouts(problem, 3);
          bool const same = found ? found->layouts == expected : expected.empty();
          ++searches;
          feasible += found ? 1 : 0;
          wrong += same ? 0 : 1;
        }
      }
    }
  }
  state.counters["searches"] = searches;
  state.counters["feasible"] = feasible;
  state.counters["wrong"] = wrong;
}
BENCHMARK(differs_from_all)
    ->Name("search_layouts/differs_from_all")
    ->ArgNames({"gpus", "models"})
    ->Args({16, 50})
    ->Args({64, 50})
    ->Args({256, 5})
    ->Args({1024, 5})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// What the simulator takes for the best layout and a batch of 2,048 samples.
void simulate(benchmark::State& state)
{
  auto const drawn = models(20, 2048);
  std::vector<ballast::layout_problem> problems;
  std::vector<ballast::model_layout> layouts;
  for (auto const& model : drawn) {
    auto const problem = problem_of(model, state.range(0), 2048);
    auto const found = ballast::search_layouts(problem);
    if (!found) { continue; }
    problems.push_back(problem);
    layouts.push_back(found->layouts.front());
  }
  std::size_t next = 0;
  for (auto _ : state) {
    std::size_t const which = next++ % layouts.size();
    auto const time =
        ballast::simulate_layout(problems[which], layouts[which], problems[which].sizes);
    benchmark::DoNotOptimize(time);
  }
}
BENCHMARK(simulate)
    ->Name("simulate_layout")
    ->ArgName("gpus")
    ->Arg(64)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

}  // namespace
