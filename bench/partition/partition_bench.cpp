#include "../../tests/support/list_sorting_knapsack.hpp"  // defines: the planner users have today
#include "../common/workloads.hpp"                        // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/report/metrics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::tokens;

void report_quality(benchmark::State& state, ballast::partition_plan const& plan,
                    ballast::bag_layout const& bags)
{
  auto const metrics = ballast::report::measure_balance(plan.loads, bags.sizes());
  state.counters["gap"] = plan.gap();
  state.counters["wir"] = metrics.imbalance_ratio().value_or(0);  // 0: some GPU has no work
}

// The whole front door in the steady state: costs, sort, policy, groups, bound. Every iteration
// plans another step, as training does; one step over and over would be learnt by heart by the
// branch predictor, and small steps would look cheaper than they are.
template <class Policy>
void plan(benchmark::State& state, Policy policy)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<tokens>> steps(
      std::max<std::size_t>((std::size_t{1} << 18) / samples, 2));
  for (std::size_t step = 0; step < steps.size(); ++step) {
    steps[step] = bench::lognormal_lengths(samples, 1.0, /*seed=*/42 + step);
  }
  auto const bags = ballast::one_gpu_bags(static_cast<std::size_t>(state.range(1)));
  auto const cost = bench::transformer_cost();
  ballast::partition_plan result;
  ballast::workspace memory;
  std::size_t step = 0;
  for (auto _ : state) {
    bool const done = ballast::partition_into(result, memory, steps[step++ % steps.size()], bags,
                                              cost, {}, policy)
                          .has_value();
    benchmark::DoNotOptimize(done);
    benchmark::ClobberMemory();
  }
  report_quality(state, result, bags);
  state.counters["per_sample"] = benchmark::Counter(
      static_cast<double>(samples),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void plan_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "bags"})
      ->ArgsProduct({{1'000, 32'768, 1'000'000}, {64, 1024}})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(plan, round_robin, ballast::round_robin{})->Apply(plan_grid);
BENCHMARK_CAPTURE(plan, longest_processing_time, ballast::longest_processing_time{})
    ->Apply(plan_grid);
BENCHMARK_CAPTURE(plan, greedy_knapsack, ballast::greedy_knapsack{})->Apply(plan_grid);

// Baseline: what a user of the published planner has today, which filters and sorts a list of all
// bags for every sample. One iteration is seconds long, so both sides are timed here, in one run.
void list_sorting_planner(benchmark::State& state)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const lengths = bench::lognormal_lengths(samples, 1.0, /*seed=*/42);
  auto const bags = ballast::one_gpu_bags(static_cast<std::size_t>(state.range(1)));
  auto const cost = bench::transformer_cost();
  ballast::partition_plan ours;
  ballast::workspace memory;
  auto const plan_ours = [&] {
    bool const done =
        ballast::partition_into(ours, memory, lengths, bags, cost, {}, ballast::greedy_knapsack{})
            .has_value();
    benchmark::DoNotOptimize(done);
  };
  plan_ours();
  double const our_seconds = bench::median_seconds(31, plan_ours);

  std::vector<ballast::bag_id> owner;
  double seconds = 0;
  for (auto _ : state) {
    seconds = bench::median_seconds(1, [&] {
      std::vector<ballast::cost_units> costs;
      for (tokens const length : lengths) { costs.push_back(cost(length)); }
      owner = ballast_test::list_sorting_knapsack(costs, lengths, bags.sizes(), true,
                                                  ballast_test::floating_occupancy{});
    });
    benchmark::DoNotOptimize(owner.data());
  }
  state.counters["greedy_knapsack_ms"] = our_seconds * 1e3;
  state.counters["times_slower"] = seconds / our_seconds;
}

BENCHMARK(list_sorting_planner)
    ->ArgNames({"samples", "bags"})
    ->Args({32'768, 1024})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
