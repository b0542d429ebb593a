// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/pipeline_families.hpp"  // defines: named_families, times_of
#include "../../tests/support/pipelines.hpp"

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstdlib>

namespace {

using ballast::time_units;

constexpr std::size_t instances_per_family = 10;  // of every family
constexpr std::size_t most_settled = 9;           // which exact_order always proves

ballast::compiled_schedule schedule_of(std::size_t microbatches, std::size_t ranks,
                                       std::size_t chunks)
{
  auto const stages = ballast::chain_of_stages(ranks * chunks, ranks);
  return ballast::compiled_schedule::make(stages, ballast::interleaved_one_forward_one_backward{},
                                          microbatches)
      .value();
}

// One iteration orders one step; the steps of the family come in turn. Quality is the mean over all
// of them: gap is makespan / bound - 1, saved the share of the given order's makespan, and up to
// nine microbatches excess is makespan / optimum - 1.
template <class Policy>
void order(benchmark::State& state, Policy policy, ballast_test::time_family family)
{
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const ranks = static_cast<std::size_t>(state.range(1));
  auto const chunks = static_cast<std::size_t>(state.range(2));
  auto const schedule = schedule_of(microbatches, ranks, chunks);
  std::vector<ballast::pipeline_times> steps;
  for (std::size_t step = 0; step < instances_per_family; ++step) {
    steps.push_back(ballast_test::times_of(family, microbatches, ranks * chunks, step + 1));
  }
  ballast::workspace memory;
  ballast::order_plan plan;
  std::vector<ballast::microbatch_id> placed(microbatches);
  std::size_t step = 0;
  for (auto _ : state) {
    for (std::size_t at = 0; at < microbatches; ++at) {
      placed[at] = ballast::to_id<ballast::microbatch_id>(at);
    }
    time_units const proven = ballast::detail::run_order_policy(
        policy, {schedule, steps[step++ % instances_per_family]}, placed, memory);
    benchmark::DoNotOptimize(proven);
    benchmark::ClobberMemory();
  }

  double gap = 0;
  double saved = 0;
  double excess = 0;
  for (auto const& times : steps) {
    if (!order_microbatches_into(plan, memory, schedule, times, policy)) { std::abort(); }
    gap += plan.gap();
    saved += 1 - static_cast<double>(plan.makespan) / static_cast<double>(plan.makespan_given);
    if (microbatches > most_settled) { continue; }
    auto const best = order_microbatches(schedule, times, ballast::exact_order{}).value();
    excess += static_cast<double>(plan.makespan) / static_cast<double>(best.makespan) - 1;
  }
  constexpr auto count = static_cast<double>(instances_per_family);
  state.counters["gap"] = gap / count;
  state.counters["saved"] = saved / count;
  if (microbatches <= most_settled) { state.counters["excess"] = excess / count; }
}

template <class Policy>
void add(std::string const& name, Policy const& policy, bool settles = false)
{
  for (auto const& [family, family_name] : ballast_test::named_families) {
    auto* const rows = benchmark::RegisterBenchmark(
        ("order/" + name + "/" + std::string(family_name)).c_str(), order<Policy>, policy, family);
    rows->ArgNames({"microbatches", "ranks", "chunks"})->Unit(benchmark::kMicrosecond);
    rows->Args({7, 2, 2})->Args({8, 4, 1})->Args({8, 8, 1});
    if (settles) {
      rows->Args({9, 8, 1});
    } else {
      rows->Args({64, 4, 1})->Args({64, 8, 1})->Args({64, 16, 1})->Args({64, 4, 2});
    }
  }
}

// Interval filling where the first stage is named an encoder and the last one a generator, and where
// no stage is named: means above the bound of 200 steps in which both vary, beside the given order.
void named_ends(benchmark::State& state)
{
  constexpr std::size_t microbatches = 64;
  constexpr std::uint64_t steps = 200;
  auto const ranks = static_cast<std::size_t>(state.range(0));
  auto const make = [&](ballast::stage_graph const& stages) {
    return ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{},
                                            microbatches)
        .value();
  };
  auto const named = make(ballast_test::named_chain(ranks, ranks, 1, 1));
  auto const unnamed = make(ballast::chain_of_stages(ranks, ranks));
  double given_gap = 0;
  double unnamed_gap = 0;
  double gap = 0;
  for (auto _ : state) {
    given_gap = unnamed_gap = gap = 0;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      auto const times =
          ballast_test::times_of(ballast_test::time_family::both_ends, microbatches, ranks, step);
      given_gap += order_microbatches(unnamed, times, ballast::given_order{})->gap();
      unnamed_gap += order_microbatches(unnamed, times, ballast::interval_filling{})->gap();
      gap += order_microbatches(named, times, ballast::interval_filling{})->gap();
    }
  }
  state.counters["gap_given"] = given_gap / steps;
  state.counters["gap_unnamed"] = unnamed_gap / steps;
  state.counters["gap"] = gap / steps;
}

BENCHMARK(named_ends)
    ->Name("order/named_ends")
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(16)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

bool const added = [] {
  add("given", ballast::given_order{});  // baseline
  add("ascending", ballast::ascending_order{});
  add("interval", ballast::interval_filling{});
  add("insertion", ballast::insertion{});
  add("search", ballast::local_search{});
  add("exact", ballast::exact_order{}, true);
  return true;
}();

}  // namespace
