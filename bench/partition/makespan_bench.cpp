#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../common/planned_steps.hpp"  // defines: bench::{step_costs, step_planner}

#include <benchmark/benchmark.h>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/refine.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

// Policies for bags of one kind, with the sort. `gap` is the median over twenty steps of the
// distance to the lower bound, `proven` how many of them meet it. Longest processing time first is
// what users have today.
template <class Policy>
void makespan(benchmark::State& state, Policy policy)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const bags = static_cast<std::size_t>(state.range(1));
  std::vector<std::vector<ballast::cost_units>> steps;
  for (std::uint64_t step = 0; step < 20; ++step) {
    steps.push_back(
        bench::step_costs(samples, static_cast<double>(state.range(2)) / 10, /*seed=*/100 + step));
  }
  bench::step_planner plan(samples, bags, policy);
  std::size_t next = 0;
  for (auto _ : state) { plan(steps[next++ % steps.size()]); }

  std::vector<std::uint32_t> const ones(bags, 1);
  std::vector<ballast::tokens> const lengths(samples, 1);
  std::vector<ballast::priced_sample> order(samples);
  ballast::workspace memory;
  std::vector<double> gaps;
  int proven = 0;
  for (auto const& costs : steps) {
    plan(costs);
    ballast::descending_order_into(order, costs, memory);
    auto const bound = ballast::makespan_lower_bound({costs, lengths, order, ones, ones}, memory);
    gaps.push_back(plan.makespan().value() / bound.value() - 1);
    proven += plan.makespan() == bound ? 1 : 0;
  }
  std::ranges::sort(gaps);
  state.counters["gap"] = gaps[gaps.size() / 2];
  state.counters["proven"] = proven;
}

void makespan_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "bags", "sigma_x10"})
      ->Args({256, 64, 5})
      ->Args({2048, 64, 10})
      ->Args({2048, 64, 15})
      ->Args({65'536, 1024, 10})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(makespan, longest_processing_time, ballast::longest_processing_time{})
    ->Apply(makespan_grid);
BENCHMARK_CAPTURE(makespan, karmarkar_karp, baselines::karmarkar_karp{})->Apply(makespan_grid);
BENCHMARK_CAPTURE(makespan, refine_little, ballast::refine<>{{}, 100'000})->Apply(makespan_grid);
BENCHMARK_CAPTURE(makespan, refine, ballast::refine<>{})->Apply(makespan_grid);

}  // namespace
