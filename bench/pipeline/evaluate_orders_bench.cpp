// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/pipeline_families.hpp"  // defines: times_of, time_family

#include <benchmark/benchmark.h>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

using ballast::compiled_schedule;
using ballast::microbatch_id;
using ballast::pipeline_times;
using ballast::stage_graph;
using ballast::time_units;
using ballast::detail::simd_level;

constexpr std::size_t order_count = 128;

// As in a search: a set of orders that is larger than what is evaluated at once.
std::vector<microbatch_id> random_orders(std::size_t microbatches)
{
  ballast::random_source random(1);
  std::vector<microbatch_id> orders(order_count * microbatches);
  for (std::size_t at = 0; at < orders.size(); ++at) {
    orders[at] = ballast::to_id<microbatch_id>(at % microbatches);
  }
  for (std::size_t order = 0; order < order_count; ++order) {
    random.shuffle(std::span(orders).subspan(order * microbatches, microbatches));
  }
  return orders;
}

std::vector<time_units> one_by_one(compiled_schedule const& schedule, pipeline_times const& times,
                                   std::span<microbatch_id const> orders,
                                   ballast::workspace& memory)
{
  std::vector<time_units> makespans;
  std::size_t const length = schedule.microbatches();
  for (std::size_t order = 0; order < order_count; ++order) {
    makespans.push_back(
        ballast::makespan_of(schedule, times, orders.subspan(order * length, length), memory));
  }
  return makespans;
}

// `level` is nothing for the baseline, makespan_of().
void measure(benchmark::State& state, stage_graph const& stages,
             ballast::schedule_policy auto const& policy, std::optional<simd_level> level,
             bool wide = false)
{
  if (level > ballast::detail::best_simd_level()) {
    state.SkipWithError("this machine has no such instructions");
    return;
  }
  auto const length = static_cast<std::size_t>(state.range(0));
  auto const schedule = compiled_schedule::make(stages, policy, length).value();
  auto times = ballast_test::times_of(ballast_test::time_family::every_stage_alone, length,
                                      stages.stages(), 1);
  if (wide) {  // picoseconds, say
    for (auto& [forward, backward] : times.rows) { forward *= 1'000'000, backward *= 1'000'000; }
  }
  auto const orders = random_orders(length);
  ballast::workspace memory;
  auto scratch = memory.open();
  std::vector<time_units> makespans(order_count);
  if (level) {
    ballast::order_evaluator evaluator(schedule, times, scratch, *level);
    for (auto _ : state) {
      evaluator.evaluate_into(makespans, orders);
      benchmark::DoNotOptimize(makespans.data());
    }
  } else {
    for (auto _ : state) {
      makespans = one_by_one(schedule, times, orders, memory);
      benchmark::DoNotOptimize(makespans.data());
    }
  }
  if (makespans != one_by_one(schedule, times, orders, memory)) {
    state.SkipWithError("not the makespans of the simulator");
  }
  auto const tasks = static_cast<double>(schedule.tasks().size());
  state.counters["orders"] = benchmark::Counter(static_cast<double>(order_count),
                                                benchmark::Counter::kIsIterationInvariantRate);
  state.counters["per_task"] = benchmark::Counter(
      static_cast<double>(order_count) * tasks,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["makespan"] = static_cast<double>(std::ranges::min(makespans));
}

void construct(benchmark::State& state)
{
  auto const stages = ballast::chain_of_stages(static_cast<std::size_t>(state.range(1)),
                                               static_cast<std::size_t>(state.range(1)));
  auto const length = static_cast<std::size_t>(state.range(0));
  auto const schedule =
      compiled_schedule::make(stages, ballast::one_forward_one_backward{}, length).value();
  auto const times = ballast_test::times_of(ballast_test::time_family::every_stage_alone, length,
                                            stages.stages(), 1);
  ballast::workspace memory;
  for (auto _ : state) {
    auto scratch = memory.open();
    ballast::order_evaluator evaluator(schedule, times, scratch);
    benchmark::DoNotOptimize(&evaluator);
  }
}

void one_forward_one_backward(benchmark::State& state, std::optional<simd_level> level, bool wide)
{
  auto const ranks = static_cast<std::size_t>(state.range(1));
  measure(state, ballast::chain_of_stages(ranks, ranks), ballast::one_forward_one_backward{}, level,
          wide);
}

void gpipe(benchmark::State& state, std::optional<simd_level> level)
{
  auto const ranks = static_cast<std::size_t>(state.range(1));
  measure(state, ballast::chain_of_stages(ranks, ranks), ballast::gpipe{}, level);
}

void interleaved(benchmark::State& state, std::optional<simd_level> level)
{
  auto const ranks = static_cast<std::size_t>(state.range(1));
  measure(state, ballast::chain_of_stages(2 * ranks, ranks),
          ballast::interleaved_one_forward_one_backward{}, level);
}

// Two encoders, one of them frozen, an LLM and a generator.
void joined(benchmark::State& state, std::optional<simd_level> level)
{
  ballast::joined_modules modules;
  modules.transfer = 100;
  modules.encoders = {{1, true}, {2, false}};
  modules.llm.stages = static_cast<std::size_t>(state.range(1)) - 4;
  modules.generators.resize(1);
  modules.generators.front().stages = 1;
  measure(state, ballast::joined_stages(modules).value(), ballast::one_forward_one_backward{},
          level);
}

void order_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"l", "p"})->Unit(benchmark::kMicrosecond);
  for (std::int64_t const ranks : {4, 8, 16, 32}) { rows->Args({64, ranks}); }
  for (std::int64_t const length : {16, 256, 1024}) { rows->Args({length, 8}); }
}

void one(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"l", "p"})->Args({64, 8})->Unit(benchmark::kMicrosecond);
}

constexpr auto portable = simd_level::portable;
constexpr auto avx2 = simd_level::avx2;

BENCHMARK_CAPTURE(one_forward_one_backward, makespan_of, std::nullopt, false)->Apply(order_grid);
BENCHMARK_CAPTURE(one_forward_one_backward, portable, portable, false)->Apply(order_grid);
BENCHMARK_CAPTURE(one_forward_one_backward, avx2, avx2, false)->Apply(order_grid);
BENCHMARK_CAPTURE(one_forward_one_backward, portable_64_bits, portable, true)->Apply(one);
BENCHMARK_CAPTURE(one_forward_one_backward, avx2_64_bits, avx2, true)->Apply(order_grid);
BENCHMARK_CAPTURE(gpipe, makespan_of, std::nullopt)->Apply(one);
BENCHMARK_CAPTURE(gpipe, avx2, avx2)->Apply(one);
BENCHMARK_CAPTURE(interleaved, makespan_of, std::nullopt)->Apply(one);
BENCHMARK_CAPTURE(interleaved, avx2, avx2)->Apply(one);
BENCHMARK_CAPTURE(joined, makespan_of, std::nullopt)->Apply(one);
BENCHMARK_CAPTURE(joined, avx2, avx2)->Apply(one);
BENCHMARK(construct)->Apply(one);

}  // namespace
