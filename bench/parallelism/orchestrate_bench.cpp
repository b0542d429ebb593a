// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/all_orchestrations.hpp"  // defines: ballast_test::best_of_all_assignments
#include "../../tests/support/disttrain_models.hpp"       // defines: ballast_test::orchestration_of
#include "../../tests/support/random_orchestrations.hpp"  // defines: ballast_test::random_orchestration

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/orchestrate.hpp>

namespace {

// DistTrain's models of 9B, 15B and 72B; the paper's planner takes 922, 641, 441 and 133 ms for
// these numbers of GPUs and samples.
void orchestrate_model(benchmark::State& state, ballast::transformer_shape const& llm)
{
  auto const problem =
      ballast_test::orchestration_of({.llm = llm}, static_cast<std::uint32_t>(state.range(0)),
                                     static_cast<std::uint32_t>(state.range(1)));
  for (auto _ : state) {
    auto const found = ballast::orchestrate(problem);
    benchmark::DoNotOptimize(found);
  }
  auto const found = ballast::orchestrate(problem);
  state.counters["used"] = found ? static_cast<double>(found->layout.gpus()) : 0;
  state.counters["evaluated"] = found ? static_cast<double>(found->evaluated) : 0;
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
  auto problem = ballast_test::orchestration_of({.llm = ballast::known_shape("llama3-7b")},
                                                static_cast<std::uint32_t>(state.range(0)),
                                                static_cast<std::uint32_t>(state.range(1)));
  problem.kinds.resize(3, problem.kinds.front());
  problem.kinds[1].speed = {1, 2};
  problem.kinds[2].speed = {1, 3};
  problem.kinds[2].memory_bytes /= 2;
  for (auto _ : state) {
    auto const found = ballast::orchestrate(problem);
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(orchestrate_kinds)
    ->Name("orchestrate/three_kinds")
    ->ArgNames({"gpus", "batch"})
    ->Args({1296, 1920})
    ->Args({112, 240})
    ->Unit(benchmark::kMillisecond);

// Orchestrations that are not what trying all of them finds, or that lack memory in their simulated
// pipeline: none. Up to three modules on one or two kinds of up to 96 GPUs, frozen or not, with
// virtual stages and traffic.
void differs_from_all_orchestrations(benchmark::State& state)
{
  double feasible = 0;
  double wrong = 0;
  double above_memory = 0;
  for (auto _ : state) {
    ballast::random_source random(96);
    for (std::int64_t trial = 0; trial < state.range(0); ++trial) {
      auto const problem = ballast_test::random_orchestration(random, 96, 96, 24);
      auto const expected = ballast_test::best_of_all_assignments(problem);
      auto const found = ballast::orchestrate(problem);
      bool const same =
          found ? expected && found->layout == expected->layout && found->kinds == expected->kinds
                : !expected;
      feasible += found ? 1 : 0;
      if (found) {
        above_memory += ballast_test::simulated_memory(
                            ballast_test::on_kinds(problem, found->kinds), found->layout)
                                .fits
                            ? 0
                            : 1;
      }
      wrong += same ? 0 : 1;
    }
  }
  state.counters["feasible"] = feasible;
  state.counters["wrong"] = wrong;
  state.counters["above_memory"] = above_memory;
}
BENCHMARK(differs_from_all_orchestrations)
    ->Name("orchestrate/differs_from_all")
    ->ArgName("problems")
    ->Arg(200)
    ->Arg(10'000)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
