// SPDX-License-Identifier: Apache-2.0
#include "../../tests/runtime/scheduled_steps.hpp"  // defines: ballast_test::{small_setup, square_times}

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>
#include <ballast/runtime/online_scheduler.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

// The encoder has about as much to do as each stage of the LLM, so that both have to be even.
struct bench_times {
  std::array<ballast::stage_time, 2> operator()(std::span<ballast::tokens const, 2> sizes) const
  {
    auto times = ballast_test::square_times{}(sizes);
    times[0] = {6 * times[0].forward, 6 * times[0].backward};
    return times;
  }
};

using online_order = ballast::local_search<ballast::insertion>;
using bench_scheduler = ballast::microbatch_scheduler<2, bench_times, online_order>;

// Four replicas of sixteen microbatches: 64 buckets, each for the encoder and the LLM.
bench_scheduler make_bench_scheduler()
{
  auto small = ballast_test::small_setup(4, 16);
  ballast::scheduler_setup setup{.schedule = std::move(small.schedule), .modules = small.modules};
  return bench_scheduler::make(std::move(setup), {}, {.inner = {}, .evaluations = 2'000}).value();
}

// Text and tiles of lognormal lengths; three samples in ten have no image.
std::vector<ballast::tokens> bench_sizes_of(std::size_t samples, std::uint64_t step)
{
  ballast::random_source random(step);
  ballast::clamped_lengths const texts{ballast::lognormal_lengths{.median = 500, .sigma = 1.0}, 1,
                                       8192};
  ballast::clamped_lengths const tiles{ballast::lognormal_lengths{.median = 4, .sigma = 0.8}, 1,
                                       32};
  std::vector<ballast::tokens> sizes;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    ballast::tokens const items = random.below(10) < 3 ? 0 : tiles(random);
    sizes.push_back(items);
    sizes.push_back(texts(random) + 64 * items);
  }
  return sizes;
}

// Steps that sleep while the next one is planned: how many hand-overs waited, and how far the
// largest bucket is above the bound.
void run_online(benchmark::State& state)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const steps = static_cast<std::uint64_t>(state.range(1));
  std::chrono::milliseconds const step_time(state.range(2));
  double gap = 0;
  double worst = 0;
  std::uint64_t waited = 0;
  for (auto _ : state) {
    ballast::online_scheduler next(make_bench_scheduler());
    ballast::or_throw(next.submit(bench_sizes_of(samples, 0)));
    std::this_thread::sleep_for(step_time);
    for (std::uint64_t step = 0; step < steps; ++step) {
      auto const* const plan = next.take().value();
      gap += plan->largest_load_gap() / static_cast<double>(steps);
      worst = std::max(worst, plan->largest_load_gap());
      ballast::or_throw(next.submit(bench_sizes_of(samples, step + 1)));
      std::this_thread::sleep_for(step_time);
    }
    waited += next.waited();
  }
  auto const iterations = static_cast<double>(state.iterations());
  state.counters["waited"] = static_cast<double>(waited) / iterations;
  state.counters["gap_%"] = 100 * gap / iterations;
  state.counters["worst_%"] = 100 * worst;
}

// How long planning takes on its thread; with corrected costs a step is planned twice.
void plan_microbatches(benchmark::State& state)
{
  auto planner = make_bench_scheduler();
  auto const sizes = bench_sizes_of(static_cast<std::size_t>(state.range(0)), 1);
  std::vector<std::uint32_t> factors;
  if (state.range(1) != 0) {
    factors.assign(std::size_t{2} * ballast::shape_buckets, ballast::unchanged_factor);
    for (std::size_t shape = 0; shape < factors.size(); shape += 33) { factors[shape] *= 2; }
  }
  ballast::scheduled_step<2> step;
  std::uint64_t number = 0;
  for (auto _ : state) {
    ballast::or_throw(planner(step, sizes, 1, number++, factors));
    benchmark::DoNotOptimize(step.makespan);
  }
  state.counters["gap_%"] = 100 * step.largest_load_gap();
}

// How much shorter steps of `samples` are than with even microbatches.
void make_unequal(benchmark::State& state, std::vector<ballast::tokens> const& sizes)
{
  auto planner = make_bench_scheduler();
  auto const samples = static_cast<std::size_t>(state.range(0));
  double before = 0;
  double after = 0;
  std::uint64_t steps = 0;
  for (auto _ : state) {
    for (std::size_t at = 0; at + 2 * samples <= sizes.size(); at += 2 * samples) {
      ballast::scheduled_step<2> step;
      std::span<ballast::tokens const> const own(sizes.data() + at, 2 * samples);
      ballast::or_throw(planner(step, own, 1, steps++, {}));
      before += static_cast<double>(step.even_makespan);
      after += static_cast<double>(step.makespan);
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(steps));
  state.counters["shorter_%"] = 100 - 100 * after / before;
}

void make_drawn_unequal(benchmark::State& state)
{
  std::vector<ballast::tokens> all;
  for (std::uint64_t step = 0; step < 10; ++step) {
    auto const sizes = bench_sizes_of(static_cast<std::size_t>(state.range(0)), step);
    all.insert(all.end(), sizes.begin(), sizes.end());
  }
  make_unequal(state, all);
}

// Items are 64 tokens of images or video each, tokens at most 32,768.
void make_traced_unequal(benchmark::State& state, std::string const& file, std::string const& items,
                         std::string const& text)
{
  char const* const folder = std::getenv("BALLAST_DATA");
  if (folder == nullptr) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
  std::string const path = std::string(folder) + "/" + file;
  auto const drawn = ballast::read_file(path, ballast::read_length_trace, items);
  auto const all = ballast::read_file(path, ballast::read_length_trace, text + "+" + items);
  if (!drawn || !all) { return state.SkipWithError((drawn ? all : drawn).error().message.c_str()); }
  ballast::random_source random(5);
  std::vector<ballast::tokens> sizes;
  for (std::int64_t sample = 0; sample < 10 * state.range(0); ++sample) {
    std::size_t const row = random.below(all->size());
    ballast::tokens const of_text = (*all)[row] - (*drawn)[row];
    sizes.push_back(std::min<ballast::tokens>((*drawn)[row], 16'384) / 64);
    sizes.push_back(std::min<ballast::tokens>(of_text, 16'384) + 64 * sizes.back());
  }
  make_unequal(state, sizes);
}

void step_grid(benchmark::internal::Benchmark* each)
{
  each->ArgNames({"samples", "steps", "step_ms"})->Iterations(1)->UseRealTime();
  each->Unit(benchmark::kMillisecond);
}

BENCHMARK(run_online)
    ->Name("online_scheduler")
    ->Apply(step_grid)
    ->Args({2048, 20, 100})
    ->Args({2048, 250, 100});
BENCHMARK(plan_microbatches)
    ->Name("microbatch_scheduler")
    ->ArgNames({"samples", "corrected"})
    ->Unit(benchmark::kMillisecond)
    ->ArgsProduct({{256, 2048}, {0, 1}});

void unequal_sizes(benchmark::internal::Benchmark* row)
{
  row->ArgName("samples")->Arg(256)->Arg(2048)->Iterations(1)->Unit(benchmark::kMillisecond);
}
BENCHMARK(make_drawn_unequal)->Name("microbatch_scheduler/unequal/drawn")->Apply(unequal_sizes);
BENCHMARK_CAPTURE(make_traced_unequal, interleaved_docs, "interleaved_docs.csv",
                  "visual_tokens_qwen2vl", "text_tokens")
    ->Name("microbatch_scheduler/unequal/interleaved_docs")
    ->Apply(unequal_sizes);
BENCHMARK_CAPTURE(make_traced_unequal, nextqa_video, "nextqa_video.csv", "video_tokens_qwen2vl",
                  "text_tokens")
    ->Name("microbatch_scheduler/unequal/nextqa_video")
    ->Apply(unequal_sizes);
BENCHMARK_CAPTURE(make_traced_unequal, rl_groups, "rl_groups.csv", "0*prompt_tokens",
                  "prompt_tokens+response_tokens")
    ->Name("microbatch_scheduler/unequal/rl_groups")
    ->Apply(unequal_sizes);
BENCHMARK_CAPTURE(make_traced_unequal, mooncake_conversation, "mooncake_conversation.csv",
                  "0*prompt_tokens", "prompt_tokens+response_tokens")
    ->Name("microbatch_scheduler/unequal/mooncake_conversation")
    ->Apply(unequal_sizes);

}  // namespace
