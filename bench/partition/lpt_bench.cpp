#include "../common/planned_steps.hpp"  // defines: bench::{sort_and_heap, step_costs, step_planner}

#include <benchmark/benchmark.h>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/longest_processing_time.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

// Sort and LPT in rounds, next to what users write in the same run: `times_faster` is the ratio of
// the medians. Each repeat plans another step, so that no branch predictor learns the order.
void lpt_next_to_sort_and_heap(benchmark::State& state)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const bags = static_cast<std::size_t>(state.range(1));
  std::size_t const steps_kept = samples > 100'000 ? 3 : 16;
  int const repeats = samples > 100'000 ? 9 : samples > 10'000 ? 63 : 999;
  std::vector<std::vector<ballast::cost_units>> steps;
  for (std::size_t step = 0; step < steps_kept; ++step) {
    steps.push_back(bench::step_costs(samples, 1.0, /*seed=*/42 + step));
  }
  bench::step_planner in_rounds(samples, bags, ballast::longest_processing_time{});
  std::vector<ballast::bag_id> owner;
  std::vector<ballast::priced_sample> order(samples);
  ballast::workspace memory;
  double sort_seconds = 0;
  double our_seconds = 0;
  double baseline_seconds = 0;
  for (auto _ : state) {
    std::size_t next = 0;
    auto const costs = [&]() -> auto const& { return steps[next++ % steps.size()]; };
    sort_seconds = bench::median_seconds(
        repeats, [&] { ballast::descending_order_into(order, costs(), memory); });
    our_seconds = bench::median_seconds(repeats, [&] { in_rounds(costs()); });
    baseline_seconds =
        bench::median_seconds(repeats, [&] { bench::sort_and_heap(costs(), bags, owner); });
  }
  in_rounds(steps.front());
  bench::sort_and_heap(steps.front(), bags, owner);
  if (owner != in_rounds.owner()) { state.SkipWithError("the plans differ"); }
  state.counters["sort_ms"] = sort_seconds * 1e3;
  state.counters["sort_and_rounds_ms"] = our_seconds * 1e3;
  state.counters["sort_and_heap_ms"] = baseline_seconds * 1e3;
  state.counters["times_faster"] = baseline_seconds / our_seconds;
}

BENCHMARK(lpt_next_to_sort_and_heap)
    ->ArgNames({"samples", "bags"})
    ->Args({2048, 64})
    ->Args({65'536, 1024})
    ->Args({1'000'000, 16'384})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
