// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/pipeline_families.hpp"  // defines: named_families, times_of

#include <benchmark/benchmark.h>
#include <ballast/pipeline.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace plan_schedule_bench {

using ballast::time_units;

constexpr std::uint64_t instances_per_family = 4;

/// A step whose backwards are in two equal parts, and the bytes that each microbatch keeps: as many
/// as its forward takes units.
struct split_step {
  ballast::pipeline_times whole;
  ballast::pipeline_times split;
  ballast::pipeline_memory memory;
};

split_step step_of(ballast_test::time_family family, std::size_t microbatches, std::size_t ranks,
                   std::uint64_t seed)
{
  split_step step{ballast_test::times_of(family, microbatches, ranks, seed), {}, {}};
  step.split = step.whole;
  for (auto& [forward, backward] : step.split.rows) {
    step.split.weights.push_back(backward / 2);
    backward -= backward / 2;
    auto const held = static_cast<std::uint64_t>(forward);
    step.memory.held.push_back({held, held});
  }
  return step;
}

ballast::stage_graph split_stages(std::size_t ranks)
{
  std::vector<ballast::pipeline_stage> stages(ranks);
  std::vector<ballast::stage_link> links;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    stages[rank].rank = ballast::to_id<ballast::pipeline_rank>(rank);
    stages[rank].weights = true;
    if (rank == 0) { continue; }
    links.push_back(
        {ballast::to_id<ballast::stage_id>(rank - 1), ballast::to_id<ballast::stage_id>(rank), 0});
  }
  return ballast::stage_graph::make(std::move(stages), links).value();
}

/// The greedy rule alone, with 400 random insertions of the order: the baseline.
time_units greedy_insertions(ballast::detail::open_step const& step, std::uint64_t seed)
{
  ballast::random_source random(seed);
  ballast::detail::greedy_ranks greedy(step);
  ballast::detail::task_sequences sequences;
  std::vector<std::uint32_t> order(step.microbatches());
  std::iota(order.begin(), order.end(), 0U);
  time_units least = greedy(sequences, order, {}, random);
  for (int insertion = 0; insertion < 400; ++insertion) {
    auto other = order;
    std::uint32_t const moved = other[random.below(other.size())];
    std::erase(other, moved);
    other.insert(other.begin() + static_cast<std::ptrdiff_t>(random.below(order.size())), moved);
    time_units const makespan = greedy(sequences, other, {}, random);
    if (makespan > least) { continue; }
    least = makespan;
    order = other;
  }
  return least;
}

// Each rank may keep what the best order of 1F1B needs on its fullest rank. shorter: how much
// longer that order takes with whole backwards; over_greedy: makespan above the baseline's; gap and
// free_gap: makespan above the bound, with those limits and without.
void plan(benchmark::State& state, ballast_test::time_family family)
{
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const ranks = static_cast<std::size_t>(state.range(1));
  auto const stages = split_stages(ranks);
  ballast::compiled_schedule const whole(ballast::chain_of_stages(ranks, ranks),
                                         ballast::one_forward_one_backward{}, microbatches);
  double shorter = 0;
  double over_greedy = 0;
  double gap = 0;
  double free_gap = 0;
  std::vector<split_step> steps;
  for (std::uint64_t seed = 1; seed <= instances_per_family; ++seed) {
    split_step step = step_of(family, microbatches, ranks, seed);
    auto const ordered =
        ballast::order_microbatches(whole, step.whole, ballast::local_search{}).value();
    std::uint64_t fullest = 0;
    for (auto const& rank :
         ballast::activation_memory(whole, ballast::simulate(whole, step.whole, ordered.order),
                                    ordered.order, step.memory.held)) {
      fullest = std::max(fullest, rank.peak_bytes);
    }
    auto const free = ballast::plan_schedule(stages, step.split, step.memory).value();
    step.memory.most.assign(ranks, fullest);
    auto const planned = ballast::plan_schedule(stages, step.split, step.memory).value();
    time_units const greedy =
        greedy_insertions(ballast::detail::open_step(stages, step.split, step.memory), seed);
    shorter += static_cast<double>(ordered.makespan) / static_cast<double>(planned.makespan) - 1;
    over_greedy += static_cast<double>(planned.makespan) / static_cast<double>(greedy) - 1;
    gap += planned.gap();
    free_gap += free.gap();
    steps.push_back(std::move(step));
  }
  std::size_t next = 0;
  for (auto _ : state) {
    split_step const& step = steps[next++ % steps.size()];
    benchmark::DoNotOptimize(ballast::plan_schedule(stages, step.split, step.memory));
  }
  state.counters["shorter"] = shorter / instances_per_family;
  state.counters["over_greedy"] = over_greedy / instances_per_family;
  state.counters["gap"] = gap / instances_per_family;
  state.counters["free_gap"] = free_gap / instances_per_family;
}

bool const added = [] {
  for (auto const& [family, name] : ballast_test::named_families) {
    benchmark::RegisterBenchmark(
        ("schedule/planned/" + std::string(name)).c_str(),
        [family = family](benchmark::State& state) { plan(state, family); })
        ->ArgNames({"microbatches", "ranks"})
        ->Args({8, 8})
        ->Args({16, 8})
        ->Args({32, 16})
        ->Args({64, 16})
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace plan_schedule_bench
