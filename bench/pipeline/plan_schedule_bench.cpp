// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/pipeline_families.hpp"  // defines: named_families, times_of

#include <benchmark/benchmark.h>
#include <ballast/pipeline.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <utility>
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

/// Whole backwards of a step in two halves.
split_step split_of(ballast::pipeline_times whole)
{
  split_step step{std::move(whole), {}, {}};
  step.split = step.whole;
  for (auto& [forward, backward] : step.split.rows) {
    step.split.weights.push_back(backward / 2);
    backward -= backward / 2;
    auto const held = static_cast<std::uint64_t>(forward);
    step.memory.held.push_back({held, held});
  }
  return step;
}

/// A chain of stages, whose backwards are in two parts or whole.
ballast::stage_graph chain_of(std::size_t ranks, bool split, time_units transfer = 0)
{
  std::vector<ballast::pipeline_stage> stages(ranks);
  std::vector<ballast::stage_link> links;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    stages[rank].rank = ballast::to_id<ballast::pipeline_rank>(rank);
    stages[rank].weights = split;
    if (rank == 0) { continue; }
    links.push_back({ballast::to_id<ballast::stage_id>(rank - 1),
                     ballast::to_id<ballast::stage_id>(rank), transfer});
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

/// A plan beside others of its step. Each rank may keep what the best order of 1F1B needs on its
/// fullest rank.
struct figures {
  double shorter = 0;      ///< how much longer that order takes with whole backwards
  double over_greedy = 0;  ///< the makespan above the baseline's
  double gap = 0;          ///< above the bound, with those limits
  double free_gap = 0;     ///< the same without
};

figures figures_of(split_step& step, time_units transfer, std::uint64_t seed)
{
  std::size_t const ranks = step.whole.stages;
  auto const stages = chain_of(ranks, true, transfer);
  ballast::compiled_schedule const whole(chain_of(ranks, false, transfer),
                                         ballast::one_forward_one_backward{},
                                         step.whole.microbatches());
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
  auto const over = [&](time_units other) {
    return static_cast<double>(other) / static_cast<double>(planned.makespan) - 1;
  };
  return {over(ordered.makespan), 1 / (over(greedy) + 1) - 1, planned.gap(), free.gap()};
}

void plan(benchmark::State& state, ballast_test::time_family family)
{
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const ranks = static_cast<std::size_t>(state.range(1));
  figures sum;
  std::vector<split_step> steps;
  for (std::uint64_t seed = 1; seed <= instances_per_family; ++seed) {
    steps.push_back(split_of(ballast_test::times_of(family, microbatches, ranks, seed)));
    auto const [shorter, over_greedy, gap, free_gap] = figures_of(steps.back(), 0, seed);
    sum.shorter += shorter;
    sum.over_greedy += over_greedy;
    sum.gap += gap;
    sum.free_gap += free_gap;
  }
  auto const stages = chain_of(ranks, true);
  std::size_t next = 0;
  for (auto _ : state) {
    split_step const& step = steps[next++ % steps.size()];
    benchmark::DoNotOptimize(ballast::plan_schedule(stages, step.split, step.memory));
  }
  state.counters["shorter"] = sum.shorter / instances_per_family;
  state.counters["over_greedy"] = sum.over_greedy / instances_per_family;
  state.counters["gap"] = sum.gap / instances_per_family;
  state.counters["free_gap"] = sum.free_gap / instances_per_family;
}

/// How long the microbatches of a step are beside each other.
enum class lengths : std::uint8_t {
  equal,
  two_kinds,   ///< one in three takes four times as long
  lognormal,   ///< with a coefficient of variation of 0.6
  real,        ///< videos of NExT-QA
  one_giant,   ///< one takes five times as long
  heavy_last,  ///< lognormal, and the last stage takes twice as long
  slow_link    ///< lognormal, and a transfer takes half a forward
};

constexpr std::array named_lengths = {
    std::pair{lengths::equal, "equal"},         std::pair{lengths::two_kinds, "two_kinds"},
    std::pair{lengths::lognormal, "lognormal"}, std::pair{lengths::real, "real"},
    std::pair{lengths::one_giant, "one_giant"}, std::pair{lengths::heavy_last, "heavy_last"},
    std::pair{lengths::slow_link, "slow_link"},
};

ballast::pipeline_times times_of(lengths of, std::size_t microbatches, std::size_t ranks,
                                 std::span<std::int64_t const> trace, std::uint64_t seed)
{
  ballast::random_source random(seed);
  ballast::lognormal_lengths const draw{8575, 0.5545};
  ballast::pipeline_times times(microbatches, ranks);
  for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    time_units forward = draw(random);
    if (of == lengths::equal) { forward = 10'000; }
    if (of == lengths::two_kinds) { forward = random.below(3) == 0 ? 20'000 : 5'000; }
    if (of == lengths::one_giant) { forward = microbatch == microbatches / 2 ? 50'000 : 10'000; }
    if (of == lengths::real) { forward = trace[random.below(trace.size())]; }
    for (std::size_t stage = 0; stage < ranks; ++stage) {
      bool const heavy = of == lengths::heavy_last && stage + 1 == ranks;
      time_units const own = heavy ? 2 * forward : forward;
      times[ballast::to_id<ballast::microbatch_id>(microbatch)][stage] = {own, 2 * own};
    }
  }
  return times;
}

// Over 4, 8 and 16 ranks and half as many to twice as many microbatches as ranks: means, and the
// worst plan beside the greedy rule's.
void plan_lengths(benchmark::State& state, lengths of)
{
  std::vector<std::int64_t> trace;
  if (of == lengths::real) {
    char const* const folder = std::getenv("BALLAST_DATA");
    if (folder == nullptr) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
    trace = ballast::read_file(std::string(folder) + "/nextqa_video.csv",
                               ballast::read_length_trace, "video_tokens_qwen2vl")
                .value();
  }
  std::vector<figures> all;
  for (auto _ : state) {
    all.clear();
    for (std::size_t const ranks : {4U, 8U, 16U}) {
      for (std::size_t halves = 1; halves <= 4; ++halves) {
        for (std::uint64_t seed = 1; seed <= 2; ++seed) {
          std::size_t const microbatches = ranks * halves / 2;
          split_step step =
              split_of(times_of(of, microbatches, ranks, trace, 100 * ranks + 10 * halves + seed));
          time_units const transfer = of == lengths::slow_link ? 5'000 : 0;
          all.push_back(figures_of(step, transfer, seed));
        }
      }
    }
  }
  figures sum;
  double worst = all.front().over_greedy;
  for (figures const& each : all) {
    sum.shorter += each.shorter;
    sum.over_greedy += each.over_greedy;
    sum.gap += each.gap;
    sum.free_gap += each.free_gap;
    worst = std::max(worst, each.over_greedy);
  }
  auto const count = static_cast<double>(all.size());
  state.counters["shorter"] = sum.shorter / count;
  state.counters["over_greedy"] = sum.over_greedy / count;
  state.counters["worst_over_greedy"] = worst;
  state.counters["gap"] = sum.gap / count;
  state.counters["free_gap"] = sum.free_gap / count;
}

bool const added = [] {
  for (auto const& [family, name] : ballast_test::named_families) {
    benchmark::RegisterBenchmark(("schedule/planned/" + std::string(name)).c_str(),
                                 [own = family](benchmark::State& state) { plan(state, own); })
        ->ArgNames({"microbatches", "ranks"})
        ->Args({8, 8})
        ->Args({16, 8})
        ->Args({32, 16})
        ->Args({64, 16})
        ->Unit(benchmark::kMillisecond);
  }
  for (auto const& [of, name] : named_lengths) {
    benchmark::RegisterBenchmark(("schedule/lengths/" + std::string(name)).c_str(),
                                 [own = of](benchmark::State& state) { plan_lengths(state, own); })
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace plan_schedule_bench
