#include "../common/workloads.hpp"  // defines: bench::lognormal_lengths, bench::transformer_cost

#include <benchmark/benchmark.h>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::cost_units;

std::vector<cost_units> costs_of(std::size_t samples, std::uint64_t seed)
{
  std::vector<cost_units> costs;
  auto const cost = bench::transformer_cost();
  for (auto const length : bench::lognormal_lengths(samples, 1.0, seed)) {
    costs.push_back(cost(length));
  }
  return costs;
}

// Sorts other costs each time, so that no branch predictor learns the order.
template <class Sort>
void sort_costs(benchmark::State& state, Sort sort)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<cost_units>> steps(
      std::max<std::size_t>((std::size_t{1} << 18) / samples, 2));
  for (std::size_t step = 0; step < steps.size(); ++step) { steps[step] = costs_of(samples, step); }
  std::vector<ballast::priced_sample> order(samples);
  ballast::workspace memory;
  std::size_t step = 0;
  for (auto _ : state) {
    sort(steps[step++ % steps.size()], order, memory);
    benchmark::DoNotOptimize(order.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Baseline: the standard library's sort with the same total order.
void std_sort(std::vector<cost_units> const& costs, std::vector<ballast::priced_sample>& order,
              ballast::workspace&)
{
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    order[sample] = {costs[sample], ballast::to_id<ballast::sample_id>(sample)};
  }
  std::ranges::sort(order, [](ballast::priced_sample a, ballast::priced_sample b) {
    return a.cost > b.cost || (a.cost == b.cost && a.sample < b.sample);
  });
}

void radix(std::vector<cost_units> const& costs, std::vector<ballast::priced_sample>& order,
           ballast::workspace& memory)
{
  ballast::descending_order_into(order, costs, memory);
}

void sample_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgName("samples")->Arg(100)->Arg(1'000)->Arg(32'768)->Arg(1'000'000);
}

BENCHMARK_CAPTURE(sort_costs, std_sort, std_sort)->Apply(sample_grid);
BENCHMARK_CAPTURE(sort_costs, descending_order, radix)->Apply(sample_grid);

}  // namespace
