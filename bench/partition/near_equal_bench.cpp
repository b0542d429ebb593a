#include "../../tests/support/plain_swaps.hpp"  // the baseline
#include "../common/workloads.hpp"              // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/length_trace.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>

namespace {

using ballast::cost_units;
using ballast::random_source;
using ballast::tokens;

struct scheduling_step {
  std::vector<cost_units> times;
  std::size_t machines;
};

// 98 % of all times between 0.9 (u - 1) and u, the others up to a fifth of u.
std::vector<cost_units> nearly_equal_times(random_source& random, std::size_t jobs, cost_units u)
{
  std::vector<cost_units> times(jobs);
  for (cost_units& time : times) {
    time = random.below(50) == 0 ? random.between(1, (u - 1) / 5)
                                 : random.between((9 * (u - 1) + 9) / 10, u);
  }
  return times;
}

// Ten of each of 39 sizes.
std::vector<scheduling_step> near_equal_390()
{
  random_source random(390);
  std::vector<scheduling_step> steps;
  for (cost_units const u : {100, 1'000, 10'000}) {
    for (std::size_t const machines : {5U, 10U, 25U}) {
      for (std::size_t const jobs : {10U, 50U, 100U, 500U, 1000U}) {
        if (machines > 5 && jobs < 50) { continue; }
        for (int each = 0; each < 10; ++each) {
          steps.push_back({nearly_equal_times(random, jobs, u), machines});
        }
      }
    }
  }
  return steps;
}

// Up to 64 machines and 32 jobs on each, never a multiple.
std::vector<scheduling_step> with_a_remainder()
{
  random_source random(60);
  std::vector<scheduling_step> steps;
  for (int each = 0; each < 180; ++each) {
    std::size_t const machines = 2 + random.below(63);
    std::size_t const jobs = machines * (1 + random.below(32)) + 1 + random.below(machines - 1);
    cost_units const u = each % 3 == 0 ? 100 : each % 3 == 1 ? 1'000 : 10'000;
    steps.push_back({nearly_equal_times(random, jobs, u), machines});
  }
  return steps;
}

cost_units transformer_flop(std::int64_t length)
{
  return 24 * 3072 * 3072 * length + 4 * 3072 * length * length;
}

// 24 steps in units of 1e5 FLOP: two resolutions with 3 % of noise, lognormal lengths of sigma 0.1,
// or packed sequences of 8,000 to 8,192 tokens with 5 % short ones.
template <int Family>
std::vector<scheduling_step> lengths_in_a_band()
{
  random_source random(24 + Family);
  std::vector<scheduling_step> steps;
  for (int each = 0; each < 24; ++each) {
    std::size_t const machines = 2 + random.below(31);
    std::size_t const jobs = machines * (1 + random.below(16)) + random.below(machines);
    std::vector<tokens> lengths = bench::lognormal_lengths(jobs, 0.1, random());
    for (tokens& length : lengths) {
      if (Family == 0) {
        length = (random.below(10) < 3 ? 4096 : 1024) * random.between(970, 1030);
      }
      if (Family == 2) {
        length = random.below(20) == 0 ? random.between(1, 2000) : random.between(8000, 8192);
      }
    }
    std::vector<cost_units> times;
    for (tokens const length : lengths) {
      times.push_back(transformer_flop(Family == 0 ? length / 1000 : length) / 100'000);
    }
    steps.push_back({std::move(times), machines});
  }
  return steps;
}

// The hard zone: two to three jobs on each of 12 to 48 machines, uniform times.
std::vector<scheduling_step> few_per_machine()
{
  random_source random(300);
  std::vector<scheduling_step> steps;
  for (cost_units const u : {100, 1'000}) {
    for (std::size_t const quarters : {8U, 9U, 10U, 11U, 12U}) {
      for (std::size_t const machines : {12U, 20U, 28U, 40U, 48U}) {
        for (int each = 0; each < 6; ++each) {
          std::vector<cost_units> times(machines * quarters / 4);
          for (cost_units& time : times) { time = random.between(1, u); }
          steps.push_back({std::move(times), machines});
        }
      }
    }
  }
  return steps;
}

// 100 samples of twelve lengths, multiples of 256.
std::vector<scheduling_step> twelve_multiples()
{
  random_source random(256);
  std::vector<scheduling_step> steps;
  for (int step = 0; step < 240; ++step) {
    std::vector<cost_units> kinds(12);
    for (cost_units& kind : kinds) { kind = 256 * random.between(8, 64); }
    std::vector<cost_units> times(100);
    for (cost_units& time : times) { time = kinds[random.below(kinds.size())]; }
    steps.push_back({times, 8});
  }
  return steps;
}

// 12 steps of lognormal lengths, rounded up to a multiple as tiles of kernels ask for.
template <tokens Multiple>
std::vector<scheduling_step> rounded_lengths()
{
  std::vector<scheduling_step> steps;
  for (std::uint64_t step = 0; step < 12; ++step) {
    std::vector<cost_units> times;
    for (tokens const length : bench::lognormal_lengths(2048, 1.0, /*seed=*/500 + step)) {
      tokens const tiles = (std::min<tokens>(length, 16'384) + Multiple - 1) / Multiple;
      times.push_back(transformer_flop(tiles * Multiple));
    }
    steps.push_back({std::move(times), 64});
  }
  return steps;
}

// One iteration plans every step once. `above_swaps` counts steps whose plan is above plain swaps.
template <class Policy>
void schedule(benchmark::State& state, std::vector<scheduling_step> (*draw)(), Policy policy)
{
  std::vector<scheduling_step> const steps = draw();
  ballast::partition_plan plan;
  ballast::workspace memory;
  double proven = 0;
  double above = 0;
  double gaps = 0;
  double worst_gap = 0;
  double worst_ms = 0;
  double all_ms = 0;
  for (auto _ : state) {
    proven = above = gaps = worst_gap = worst_ms = all_ms = 0;
    for (scheduling_step const& step : steps) {
      auto const bags = ballast::one_gpu_bags(step.machines);
      auto const start = std::chrono::steady_clock::now();
      bool const done = ballast::partition_into(
                            plan, memory, step.times, bags, std::identity{},
                            [](cost_units) { return tokens{1}; }, {}, policy)
                            .has_value();
      std::chrono::duration<double, std::milli> const took =
          std::chrono::steady_clock::now() - start;
      benchmark::DoNotOptimize(done);
      proven += plan.proven_optimal() ? 1 : 0;
      above +=
          plan.makespan > ballast::ratio{*ballast_test::plain_swaps(step.times, step.machines), 1}
              ? 1
              : 0;
      gaps += plan.gap();
      worst_gap = std::max(worst_gap, plan.gap());
      worst_ms = std::max(worst_ms, took.count());
      all_ms += took.count();
    }
  }
  state.counters["steps"] = static_cast<double>(steps.size());
  state.counters["proven"] = proven;
  state.counters["above_swaps"] = above;
  state.counters["mean_gap"] = gaps / static_cast<double>(steps.size());
  state.counters["worst_gap"] = worst_gap;
  state.counters["mean_ms"] = all_ms / static_cast<double>(steps.size());
  state.counters["worst_ms"] = worst_ms;
}

enum class uneven { sizes, two_bag_sizes, two_speeds, many_speeds, one_slow };

ballast::bag_layout uneven_layout(uneven kind, random_source& random)
{
  if (kind == uneven::sizes) {
    return ballast::lay_out(ballast::parse_bags("g1n8+g2n4+g4n2+g8n1").value(),
                            ballast::cluster_of(32).value(), ballast::misplaced_bags::largest_first)
        .value();
  }
  if (kind == uneven::two_bag_sizes) {
    return ballast::lay_out(ballast::parse_bags("g1n4+g8n2").value(),
                            ballast::cluster_of({4, 8, 8}).value(),
                            ballast::misplaced_bags::largest_first)
        .value();
  }
  std::vector<std::uint32_t> speeds(32, 100);
  for (std::size_t gpu = 0; gpu < speeds.size(); ++gpu) {
    if (kind == uneven::two_speeds && gpu % 2 == 0) { speeds[gpu] = 60; }
    if (kind == uneven::many_speeds) {
      speeds[gpu] = static_cast<std::uint32_t>(random.between(50, 100));
    }
    if (kind == uneven::one_slow && gpu == 3) { speeds[gpu] = 10; }
  }
  return ballast::one_gpu_bags(speeds.size()).with_speeds(speeds);
}

ballast::refine<> const exact{.nodes = std::uint64_t{1} << 24};

// 50 steps of 200 lengths that differ by 2 %, priced linearly and by their square.
template <class Policy>
void uneven_bags(benchmark::State& state, uneven kind, Policy policy, ballast::counts samples = {})
{
  ballast::partition_plan plan;
  ballast::workspace memory;
  constexpr int steps = 50;
  double gaps = 0;
  double worst_gap = 0;
  for (auto _ : state) {
    random_source random(1950);
    gaps = worst_gap = 0;
    for (int step = 0; step < steps; ++step) {
      auto const bags = uneven_layout(kind, random);
      std::vector<tokens> lengths(200);
      for (tokens& length : lengths) { length = random.between(4000, 4100); }
      bool const done = ballast::partition_into(
                            plan, memory, lengths, bags, [](tokens l) { return l * l + 3000 * l; },
                            {.samples = samples}, policy)
                            .has_value();
      benchmark::DoNotOptimize(done);
      gaps += plan.gap();
      worst_gap = std::max(worst_gap, plan.gap());
    }
  }
  state.counters["mean_gap"] = gaps / steps;
  state.counters["worst_gap"] = worst_gap;
}

enum class mix { tiles, two_kinds, coco, nextqa };

// Of a step: images of 1 to 12 tiles of 256 tokens and a thumbnail, two resolutions with 3 % of
// noise, or rows of a trace, none where BALLAST_DATA does not name its folder.
std::vector<tokens> mixed_lengths(mix of, random_source& random, std::size_t samples)
{
  std::vector<tokens> trace;
  if (char const* const folder = std::getenv("BALLAST_DATA");
      folder != nullptr && (of == mix::coco || of == mix::nextqa)) {
    trace = of == mix::coco
                ? ballast::read_file(std::string(folder) + "/coco_val2017_images.csv",
                                     ballast::read_length_trace, "visual_tokens_qwen2vl")
                      .value()
                : ballast::read_file(std::string(folder) + "/nextqa_video.csv",
                                     ballast::read_length_trace, "video_tokens_qwen2vl")
                      .value();
  }
  if ((of == mix::coco || of == mix::nextqa) && trace.empty()) { return {}; }
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) {
    if (of == mix::tiles) { length = 256 * (1 + random.between(1, 12)); }
    if (of == mix::two_kinds) {
      length = random.below(10) < 3 ? 4096 : 1024;
      length = length * random.between(970, 1030) / 1000;
    }
    if (!trace.empty()) { length = trace[random.below(trace.size())]; }
  }
  return lengths;
}

// 20 steps of such lengths by `refine`, on bags of several sizes or GPUs of two speeds. With 14
// samples or fewer also how far plans are above the optimum and the bound below, of those `solved`.
void uneven_mixes(benchmark::State& state, mix of, uneven kind)
{
  constexpr int steps = 20;
  auto const samples = static_cast<std::size_t>(state.range(0));
  double gaps = 0;
  double above = 0;
  double below = 0;
  int solved = 0;
  for (auto _ : state) {
    random_source random(1951);
    gaps = above = below = solved = 0;
    for (int step = 0; step < steps; ++step) {
      auto const bags = uneven_layout(kind, random);
      auto const lengths = mixed_lengths(of, random, samples);
      if (lengths.empty()) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
      auto const cost = [](tokens l) { return l * l + 3000 * l; };
      auto const plan = ballast::partition(lengths, bags, cost).value();
      gaps += plan.gap();
      if (samples > 14) { continue; }
      auto const best = ballast::partition(lengths, bags, cost, {}, exact).value();
      if (!best.proven_optimal()) { continue; }
      ++solved;
      above += plan.makespan.value() / best.makespan.value() - 1;
      below += 1 - plan.lower_bound.value() / best.makespan.value();
    }
  }
  state.counters["mean_gap"] = gaps / steps;
  state.counters["solved"] = solved;
  state.counters["above_optimum"] = above / std::max(solved, 1);
  state.counters["bound_below"] = below / std::max(solved, 1);
}

using ballast::refine;
using lpt = ballast::longest_processing_time;

BENCHMARK_CAPTURE(schedule, lpt_near_equal, near_equal_390, lpt{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_near_equal, near_equal_390, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, exact_near_equal, near_equal_390, exact)->Iterations(1);
BENCHMARK_CAPTURE(schedule, lpt_remainder, with_a_remainder, lpt{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_remainder, with_a_remainder, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_two_resolutions, lengths_in_a_band<0>, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_narrow, lengths_in_a_band<1>, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_multiples, twelve_multiples, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_128s, rounded_lengths<128>, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_256s, rounded_lengths<256>, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_packed, lengths_in_a_band<2>, refine{})->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, refine_sizes, uneven::sizes, refine{})->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, equal_count_sizes, uneven::sizes, refine{}, ballast::counts::equal())
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, refine_two_speeds, uneven::two_speeds, refine{})->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, equal_count_two_speeds, uneven::two_speeds, refine{},
                  ballast::counts::equal())
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, refine_many_speeds, uneven::many_speeds, refine{})->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, equal_count_many_speeds, uneven::many_speeds, refine{},
                  ballast::counts::equal())
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, refine_one_slow, uneven::one_slow, refine{})->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, equal_count_one_slow, uneven::one_slow, refine{},
                  ballast::counts::equal())
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, refine_two_sizes, uneven::two_bag_sizes, refine{})->Iterations(1);
BENCHMARK_CAPTURE(uneven_bags, equal_count_two_sizes, uneven::two_bag_sizes, refine{},
                  ballast::counts::equal())
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, tiles, mix::tiles, uneven::sizes)->Arg(200)->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, two_kinds, mix::two_kinds, uneven::sizes)->Arg(200)->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, two_kinds_speeds, mix::two_kinds, uneven::two_speeds)
    ->Arg(96)
    ->Arg(161)
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, two_kinds_slow, mix::two_kinds, uneven::one_slow)
    ->Arg(96)
    ->Arg(161)
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, coco, mix::coco, uneven::sizes)->Arg(200)->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, nextqa, mix::nextqa, uneven::sizes)->Arg(200)->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, few_tiles, mix::tiles, uneven::two_bag_sizes)
    ->Arg(14)
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, few_two_kinds, mix::two_kinds, uneven::two_bag_sizes)
    ->Arg(14)
    ->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, few_coco, mix::coco, uneven::two_bag_sizes)->Arg(14)->Iterations(1);
BENCHMARK_CAPTURE(uneven_mixes, few_nextqa, mix::nextqa, uneven::two_bag_sizes)
    ->Arg(14)
    ->Iterations(1);
BENCHMARK_CAPTURE(schedule, refine_few_per_machine, few_per_machine, refine{})->Iterations(1);
BENCHMARK_CAPTURE(schedule, exact_few_per_machine, few_per_machine, exact)->Iterations(1);

}  // namespace
