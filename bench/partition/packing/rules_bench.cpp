// SPDX-License-Identifier: Apache-2.0
#include "../../common/workloads.hpp"  // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>
#include <ballast/partition/packing/pack_to_rules.hpp>

namespace rules_bench {

// Bins of 16,384 tokens and at most 16 samples, a multiple of eight. `over_bound`: bins above the
// bound; `largest`: the largest bin above its bound; `largest_of_first_fit`: what trainers do, first
// fit decreasing, with empty bins up to the multiple.
void pack(benchmark::State& state)
{
  std::vector<ballast::tokens> lengths =
      bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)), 1.0, 42);
  for (auto& length : lengths) { length = std::min<ballast::tokens>(length, 16'384); }
  ballast::packing_rules const rules{
      .capacity = 16'384, .most_samples = 16, .multiple_of = 8, .is_padded = state.range(1) != 0};
  ballast::ruled_packing plan;
  for (auto _ : state) {
    plan = ballast::pack_to_rules(lengths, rules).value();
    benchmark::DoNotOptimize(plan);
  }
  auto const naive =
      ballast::pack_to_capacity(lengths, rules.capacity, ballast::first_fit_decreasing{}).value();
  state.counters["over_bound"] = static_cast<double>(plan.bins() - plan.lower_bound);
  auto const bound = static_cast<double>(plan.largest_bound);
  state.counters["largest"] = static_cast<double>(plan.largest) / bound - 1;
  state.counters["largest_of_first_fit"] =
      static_cast<double>(*std::max_element(naive.loads.begin(), naive.loads.end())) / bound - 1;
}
BENCHMARK(pack)
    ->Name("pack_to_rules")
    ->ArgNames({"samples", "padded"})
    ->ArgsProduct({{512, 8192}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

}  // namespace rules_bench
