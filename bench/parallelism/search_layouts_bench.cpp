// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/all_layouts.hpp"     // defines: ballast_test::all_layouts
#include "../../tests/support/random_modules.hpp"  // defines: ballast_test::draw_model

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/runtime/schedule_layout.hpp>

#include <ctime>

namespace {

constexpr std::uint64_t proof = ballast::layout_search_options::until_proven;
constexpr std::uint64_t memory_of_gpu = std::uint64_t{80} << 30;

// Models drawn at random: encoders and an LLM of 24 to 80 layers.
std::vector<ballast_test::random_model> models(std::size_t count, std::size_t samples,
                                               std::size_t modules = 2)
{
  ballast::random_source random(2048);
  std::vector<ballast_test::random_model> drawn;
  for (std::size_t model = 0; model < count; ++model) {
    drawn.push_back(ballast_test::draw_model(random, modules, samples, true, memory_of_gpu));
  }
  return drawn;
}

std::vector<ballast::tokens> batches_of(std::size_t samples, std::size_t modules = 2)
{
  ballast::random_source random(512);
  return ballast_test::draw_model(random, modules, samples, true, memory_of_gpu).sizes;
}

ballast::layout_problem problem_of(ballast_test::random_model const& model, std::int64_t gpus,
                                   std::uint32_t batch)
{
  ballast::layout_problem problem;
  problem.modules = model.modules;
  problem.sizes = model.sizes;
  problem.global_batch = batch;
  problem.kinds[0].gpus = static_cast<std::uint32_t>(gpus);
  problem.kinds[0].memory_bytes = memory_of_gpu;
  return problem;
}

// How long a proof takes; by which share the best step of a search of 2^27 steps of work is longer,
// in the mean and at most, and how long that search takes; and how many times as long a step of the
// layout of the lowest price is, which is what DFLOP's Algorithm 1 returns, and of the best of the
// 20 lowest. Models in turn, of which some fit: `proven` of `feasible`.
void search(benchmark::State& state)
{
  auto const drawn = models(static_cast<std::size_t>(state.range(1)), 256);
  double feasible = 0;
  double proven = 0;
  double bounded = 0;
  double simulated = 0;
  double soon_seconds = 0;
  double soon_above = 0;
  double soon_most = 0;
  double lowest_price = 0;
  double of_20 = 0;
  for (auto _ : state) {
    for (auto const& model : drawn) {
      auto const problem = problem_of(model, state.range(0), 512);
      auto const batches = batches_of(4 * 512);
      auto const found = ballast::search_layouts(problem, batches, {.most_work = proof});
      if (!found) { continue; }
      ++feasible;
      proven += found->is_proven ? 1 : 0;
      bounded += static_cast<double>(found->bounded);
      simulated += static_cast<double>(found->simulated);
      state.PauseTiming();
      auto const best = static_cast<double>(found->layouts.front().simulated);
      std::clock_t const start = std::clock();
      auto const soon = ballast::search_layouts(problem, batches, {.most_work = 1U << 27U}).value();
      soon_seconds += static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      double const above = static_cast<double>(soon.layouts.front().simulated) / best - 1;
      soon_above += above;
      soon_most = std::max(soon_most, above);
      auto cheapest = ballast_test::all_layouts(problem);
      cheapest.resize(std::min<std::size_t>(cheapest.size(), 20));
      auto const best_of = [&](std::size_t most) {
        auto const some = std::span(cheapest).first(std::min(most, cheapest.size()));
        auto const ranked = ballast::rank_by_simulation(problem, some, batches).value();
        return static_cast<double>(ranked.front().simulated) / best;
      };
      lowest_price += best_of(1);
      of_20 += best_of(20);
      state.ResumeTiming();
    }
  }
  state.counters["feasible"] = feasible;
  state.counters["proven"] = proven;
  state.counters["bounded"] = bounded / feasible;
  state.counters["simulated"] = simulated / feasible;
  state.counters["soon_s"] = soon_seconds / feasible;
  state.counters["soon_above"] = soon_above / feasible;
  state.counters["soon_most"] = soon_most;
  state.counters["lowest_price"] = lowest_price / feasible;
  state.counters["best_of_20"] = of_20 / feasible;
}

BENCHMARK(search)
    ->Name("search_layouts/proof")
    ->ArgNames({"gpus", "models"})
    ->Args({16, 1})
    ->Args({64, 20})
    ->Args({256, 10})
    ->Args({1024, 4})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// What the default, 2^30 steps of work, takes at most, and how far its best step is above the bound,
// in the mean and at most: models in turn, of so many modules and with as many samples in a batch.
void search_by_default(benchmark::State& state)
{
  auto const modules = static_cast<std::size_t>(state.range(1));
  auto const batch = static_cast<std::uint32_t>(state.range(2));
  auto const drawn = models(3, 256, modules);
  auto const batches = batches_of(batch, modules);
  double seconds = 0;
  double gap = 0;
  double step = 0;
  for (auto _ : state) {
    for (auto const& model : drawn) {
      std::clock_t const start = std::clock();
      auto const found = ballast::search_layouts(problem_of(model, state.range(0), batch), batches);
      seconds = std::max(seconds, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
      if (!found) { continue; }
      gap = std::max(gap, found->gap());
      step += static_cast<double>(found->layouts.front().simulated) / 1e12;
    }
  }
  state.counters["most_s"] = seconds;
  state.counters["most_gap"] = gap;
  state.counters["steps_s"] = step;
}
BENCHMARK(search_by_default)
    ->Name("search_layouts/default")
    ->ArgNames({"gpus", "modules", "batch"})
    ->Args({16, 2, 64})
    ->Args({256, 2, 512})
    ->Args({1024, 2, 512})
    ->Args({1024, 3, 512})
    ->Args({4096, 2, 2048})
    ->Args({4096, 3, 4096})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// What the default search takes with the scheduler that runs, as a ratio to that without, all models
// together; and how many times as long the scheduled step is of the layout that is best as dealt. Or
// the same with schedules of split backwards instead, and of whole ones.
void search_scheduled(benchmark::State& state, bool split)
{
  auto const batch = static_cast<std::uint32_t>(state.range(1));
  auto const drawn = models(2, 256);
  auto const batches = batches_of(batch);
  double plain_seconds = 0;
  double seconds = 0;
  double feasible = 0;
  double gain = 0;
  double most_gain = 0;
  for (auto _ : state) {
    for (auto const& model : drawn) {
      auto const problem = problem_of(model, state.range(0), batch);
      ballast::layout_search_options asked;
      if (split) {
        using all = ballast::layout_schedule;
        asked.schedules = {all::zero_bubble, all::twice_zero_bubble, all::planned};
      } else {
        asked.step = ballast::scheduled_steps<2>(problem);
      }
      std::clock_t const start = std::clock();
      auto const plain = ballast::search_layouts(problem, batches);
      std::clock_t const middle = std::clock();
      auto const found = ballast::search_layouts(problem, batches, asked);
      std::clock_t const end = std::clock();
      plain_seconds += static_cast<double>(middle - start) / CLOCKS_PER_SEC;
      seconds += static_cast<double>(end - middle) / CLOCKS_PER_SEC;
      if (!plain || !found) { continue; }
      ++feasible;
      auto const& as_dealt_best = plain->layouts.front();
      auto const as_dealt =
          split ? as_dealt_best.simulated : asked.step(as_dealt_best.layout, batches).value();
      double const own =
          static_cast<double>(as_dealt) / static_cast<double>(found->layouts.front().simulated);
      gain += own;
      most_gain = std::max(most_gain, own);
    }
  }
  state.counters["feasible"] = feasible;
  state.counters["plain_s"] = plain_seconds;
  state.counters["scheduled_s"] = seconds;
  state.counters["ratio"] = seconds / plain_seconds;
  state.counters["gain"] = gain / feasible;
  state.counters["most_gain"] = most_gain;
}
void of_four_sizes(benchmark::internal::Benchmark* row)
{
  row->ArgNames({"gpus", "batch"})->Args({16, 64})->Args({64, 512});
  row->Args({256, 512})->Args({1024, 512})->Iterations(1)->Unit(benchmark::kSecond);
}
BENCHMARK_CAPTURE(search_scheduled, scheduler, false)
    ->Name("search_layouts/scheduled")
    ->Apply(of_four_sizes);
BENCHMARK_CAPTURE(search_scheduled, schedules, true)
    ->Name("search_layouts/schedules")
    ->Apply(of_four_sizes);

// What a search with more choices takes, and by which share of the step it is shorter than without
// them: virtual stages beside one, two encoders side by side instead of one behind the other, and
// groups of sequence and expert parallelism beside tensor parallelism.
void search_choices(benchmark::State& state, std::vector<std::uint32_t> const& virtual_stages,
                    bool side_by_side, bool with_groups)
{
  std::size_t const modules = side_by_side ? 3 : 2;
  auto const drawn = models(static_cast<std::size_t>(state.range(1)), 256, modules);
  auto const batches = batches_of(4 * 512, modules);
  std::vector<std::size_t> const both_feed_the_llm{2, 2};
  double feasible = 0;
  double proven = 0;
  double simulated = 0;
  double shorter = 0;
  for (auto _ : state) {
    ballast::random_source random(7);
    for (auto const& model : drawn) {
      auto chosen = model;
      if (with_groups) { ballast_test::add_groups(random, chosen.modules); }
      auto problem = problem_of(chosen, state.range(0), 512);
      if (side_by_side) { problem.feeds = both_feed_the_llm; }
      auto const found = ballast::search_layouts(
          problem, batches, {.virtual_stages = virtual_stages, .most_work = proof});
      if (!found) { continue; }
      ++feasible;
      proven += found->is_proven ? 1 : 0;
      simulated += static_cast<double>(found->simulated);
      state.PauseTiming();
      auto const plain = ballast::search_layouts(problem_of(model, state.range(0), 512), batches,
                                                 {.most_work = proof});
      if (plain) {
        shorter += 1 - static_cast<double>(found->layouts.front().simulated) /
                           static_cast<double>(plain->layouts.front().simulated);
      }
      state.ResumeTiming();
    }
  }
  state.counters["feasible"] = feasible;
  state.counters["proven"] = proven;
  state.counters["simulated"] = simulated / feasible;
  state.counters["shorter"] = shorter / feasible;
}

std::vector<std::uint32_t> const no_more_stages;

BENCHMARK_CAPTURE(search_choices, virtual_stages, std::vector<std::uint32_t>{2, 4}, false, false)
    ->Name("search_layouts/virtual_stages")
    ->ArgNames({"gpus", "models"})
    ->Args({16, 1})
    ->Args({64, 4})
    ->Args({256, 2})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(search_choices, side_by_side, no_more_stages, true, false)
    ->Name("search_layouts/side_by_side")
    ->ArgNames({"gpus", "models"})
    ->Args({16, 1})
    ->Args({64, 4})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(search_choices, groups, no_more_stages, false, true)
    ->Name("search_layouts/groups")
    ->ArgNames({"gpus", "models"})
    ->Args({16, 1})
    ->Args({64, 4})
    ->Args({256, 2})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// How many of the models, each on so many GPUs, have another best layout than simulating all that
// fit, with all numbers of microbatches, finds. Every second model sends and reduces gradients.
void differs_from_all(benchmark::State& state)
{
  double differs = 0;
  double simulated = 0;
  for (auto _ : state) {
    ballast::random_source random(2026);
    for (std::int64_t model = 0; model < state.range(1); ++model) {
      auto drawn = ballast_test::draw_model(random, 2, 256, true, memory_of_gpu);
      if (model % 2 == 1) {
        for (auto& module : drawn.modules) { module.boundary_bytes = random.below(1 << 21); }
      }
      auto problem = problem_of(drawn, state.range(0), 64);
      if (model % 2 == 1) {
        problem.kinds[0].bytes_per_second = 25'000'000'000U << random.below(3);
      }
      auto const batch = ballast_test::draw_model(random, 2, 64, true, memory_of_gpu).sizes;
      std::vector<ballast::simulated_layout> best;
      for (ballast::model_layout layout : ballast_test::all_layouts(problem, true)) {
        auto const step = ballast::simulate_layout(problem, layout, batch).value();
        ++simulated;
        if (!best.empty() && step > best.front().simulated) { continue; }
        auto const bytes = ballast::dealt_memory(problem, layout, batch).value();
        if (bytes > problem.kinds[0].memory_bytes) { continue; }
        layout.memory_bytes = std::max(layout.memory_bytes, bytes);
        best.push_back({layout, step});
        std::sort(best.begin(), best.end(), ballast::detail::simulates_before);
        best.resize(1);
      }
      auto const found = ballast::search_layouts(problem, batch, {.most_work = proof});
      bool const same = found ? found->layouts == best : best.empty();
      differs += same ? 0 : 1;
    }
  }
  state.counters["differs"] = differs;
  state.counters["simulated"] = simulated;
}
BENCHMARK(differs_from_all)
    ->Name("search_layouts/differs_from_all")
    ->ArgNames({"gpus", "models"})
    ->Args({16, 5})
    ->Args({64, 2})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// The baseline: every tp, pp, dp and number of microbatches is priced, as the published search does
// it, and none simulated.
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
    ->Name("search_layouts/price_all")
    ->ArgName("gpus")
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

// What the simulator takes for the best layout and a batch of 512 samples.
void simulate(benchmark::State& state)
{
  auto const drawn = models(4, 512);
  std::vector<ballast::layout_problem> problems;
  std::vector<ballast::model_layout> layouts;
  for (auto const& model : drawn) {
    auto const problem = problem_of(model, state.range(0), 512);
    auto const found = ballast::search_layouts(problem, problem.sizes, {.most_work = 1U << 20U});
    if (!found) { continue; }
    problems.push_back(problem);
    layouts.push_back(found->layouts.front().layout);
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
