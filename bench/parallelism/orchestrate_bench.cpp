// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/all_orchestrations.hpp"  // defines: ballast_test::all_orchestrations
#include "../../tests/support/disttrain_models.hpp"    // defines: ballast_test::disttrain_job
#include "../../tests/support/random_orchestrations.hpp"  // defines: ballast_test::random_job

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/parallelism/search_layouts.hpp>

namespace {

// DistTrain's models of 9B, 15B and 72B; the paper's planner takes 922, 641, 441 and 133 ms for
// these numbers of GPUs and samples.
void orchestrate_model(benchmark::State& state, ballast::transformer_shape const& llm)
{
  ballast_test::disttrain_job const job({.llm = llm}, static_cast<std::uint32_t>(state.range(0)),
                                        static_cast<std::uint32_t>(state.range(1)));
  for (auto _ : state) {
    auto const found = ballast::orchestrate(job.problem, {}, job.options);
    benchmark::DoNotOptimize(found);
  }
  auto const found = ballast::orchestrate(job.problem, {}, job.options);
  state.counters["used"] = found ? static_cast<double>(found->layout.gpus()) : 0;
  state.counters["evaluated"] = found ? static_cast<double>(found->evaluated) : 0;
  state.counters["formula/simulated"] =
      found ? static_cast<double>(found->layout.step) / static_cast<double>(found->simulated) : 0;
  state.counters["paper_ms"] = static_cast<double>(state.range(2));
}

void rows_of_the_paper(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"gpus", "batch", "paper"})
      ->Args({1296, 1920, 922})
      ->Args({648, 960, 641})
      ->Args({324, 480, 441})
      ->Args({112, 240, 133})
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(orchestrate_model, 9b, ballast::known_shape("llama3-7b"))
    ->Name("orchestrate/9b")
    ->Apply(rows_of_the_paper);
BENCHMARK_CAPTURE(orchestrate_model, 15b, ballast::known_shape("llama3-13b"))
    ->Name("orchestrate/15b")
    ->Apply(rows_of_the_paper);
BENCHMARK_CAPTURE(orchestrate_model, 72b, ballast::known_shape("llama3-70b"))
    ->Name("orchestrate/72b")
    ->Apply(rows_of_the_paper);

// Three kinds of as many GPUs as the row says, with which modules is searched: 27 assignments.
void orchestrate_kinds(benchmark::State& state)
{
  ballast_test::disttrain_job job({.llm = ballast::known_shape("llama3-7b")},
                                  static_cast<std::uint32_t>(state.range(0)),
                                  static_cast<std::uint32_t>(state.range(1)));
  auto& problem = job.problem;
  problem.kinds.resize(3, problem.kinds.front());
  problem.kinds[1].speed = {1, 2};
  problem.kinds[2].speed = {1, 3};
  problem.kinds[2].memory_bytes /= 2;
  for (auto _ : state) {
    auto const found = ballast::orchestrate(problem, {}, job.options);
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(orchestrate_kinds)
    ->Name("orchestrate/three_kinds")
    ->ArgNames({"gpus", "batch"})
    ->Args({1296, 1920})
    ->Args({112, 240})
    ->Unit(benchmark::kMillisecond);

// Layouts that are not what trying all of them finds: none. Up to three modules on one or two kinds
// of up to 48 GPUs, frozen or not, with virtual stages and traffic. Memory is that of the simulated
// pipeline. And how far what is found is, in simulation, above what search_layouts finds.
void differs_from_all_orchestrations(benchmark::State& state)
{
  double feasible = 0;
  double wrong = 0;
  double searched = 0;
  double above = 0;
  double most_above = 0;
  for (auto _ : state) {
    ballast::random_source random(96);
    for (std::int64_t trial = 0; trial < state.range(0); ++trial) {
      ballast_test::random_job const job(random, 48, 24);
      auto const expected = ballast_test::all_orchestrations(job.problem, job.options).best();
      auto const found = ballast::orchestrate(job.problem, {}, job.options);
      feasible += found ? 1 : 0;
      wrong += (found ? expected && found->layout == *expected : !expected) ? 0 : 1;
      if (!found || found->simulated == 0) { continue; }
      std::vector<ballast::tokens> batch;
      std::size_t const of_batch = job.problem.global_batch * job.problem.modules.size();
      for (std::size_t at = 0; at < of_batch; ++at) {
        batch.push_back(job.problem.sizes[at % job.problem.sizes.size()]);
      }
      auto const best = ballast::search_layouts(
          job.problem, batch, {.most_work = ballast::layout_search_options::until_proven});
      if (!best) { continue; }
      ++searched;
      double const own = static_cast<double>(found->simulated) /
                         static_cast<double>(best->layouts.front().simulated);
      above += own - 1;
      most_above = std::max(most_above, own - 1);
    }
  }
  state.counters["feasible"] = feasible;
  state.counters["wrong"] = wrong;
  state.counters["searched"] = searched;
  state.counters["above_search_%"] = searched == 0 ? 0 : 100 * above / searched;
  state.counters["most_above_%"] = 100 * most_above;
}
BENCHMARK(differs_from_all_orchestrations)
    ->Name("orchestrate/differs_from_all")
    ->ArgName("problems")
    ->Arg(20)
    ->Arg(200)
    ->Arg(3'000)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
