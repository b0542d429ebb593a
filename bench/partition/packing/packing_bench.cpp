#include "../../common/workloads.hpp"  // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/partition/packing/best_fit_decreasing.hpp>
#include <ballast/partition/packing/fewest_bins_of.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>
#include <ballast/partition/packing/minimum_bin_slack.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace {

using ballast::tokens;

constexpr std::size_t packed_steps = 20;

// Several steps, since one over and over would be learnt by heart by the branch predictor. Lengths
// above the capacity are cut to it, as data preparation does.
std::vector<std::vector<tokens>> clamped_steps(benchmark::State const& state)
{
  std::vector<std::vector<tokens>> steps(packed_steps);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    steps[step] = bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)),
                                           static_cast<double>(state.range(2)) / 10, 42 + step);
    for (tokens& length : steps[step]) { length = std::min(length, state.range(1)); }
  }
  return steps;
}

// The whole front door in the steady state: sort, policy, groups, bound. bins is of the first step,
// and proven how many of twenty have the fewest bins that there can be.
template <class Policy>
void pack_to_cap(benchmark::State& state, Policy policy)
{
  auto const steps = clamped_steps(state);
  ballast::packing_plan plan;
  ballast::workspace memory;
  auto const pack_step = [&](std::size_t step) {
    bool const done =
        ballast::pack_to_capacity_into(plan, memory, steps[step], state.range(1), policy)
            .has_value();
    benchmark::DoNotOptimize(done);
  };
  double proven = 0;
  double excess = 0;
  for (std::size_t step = 0; step < packed_steps; ++step) {
    pack_step(step);
    proven += plan.proven_optimal() ? 1 : 0;
    excess += static_cast<double>(plan.bins() - plan.lower_bound);
  }
  pack_step(0);
  state.counters["bins"] = static_cast<double>(plan.bins());
  state.counters["bound"] = static_cast<double>(plan.lower_bound);
  state.counters["proven"] = proven;
  state.counters["excess"] = excess / packed_steps;
  std::size_t step = 0;
  for (auto _ : state) {
    pack_step(step++ % packed_steps);
    benchmark::ClobberMemory();
  }
}

// Samples, capacity, and ten times the sigma of the lengths' distribution.
void packing_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "capacity", "sigma10"})
      ->ArgsProduct({{64'000}, {2048, 8192, 32'768}, {5, 10, 15}})
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(pack_to_cap, first_fit_decreasing, ballast::first_fit_decreasing{})
    ->Apply(packing_grid);
BENCHMARK_CAPTURE(pack_to_cap, best_fit_decreasing, ballast::best_fit_decreasing{})
    ->Apply(packing_grid);
BENCHMARK_CAPTURE(pack_to_cap, minimum_bin_slack, ballast::minimum_bin_slack{})
    ->Apply(packing_grid);
BENCHMARK_CAPTURE(pack_to_cap, fewest_bins_of,
                  ballast::fewest_bins_of{ballast::best_fit_decreasing{},
                                          ballast::minimum_bin_slack{}})
    ->Apply(packing_grid);

// Baseline: best fit decreasing as one writes it with the standard library, a tree of open bins
// by the room they have left.
void multimap_best_fit(benchmark::State& state)
{
  auto const steps = clamped_steps(state);
  std::size_t step = 0;
  std::size_t bins = 0;
  for (auto _ : state) {
    std::vector<tokens> lengths = steps[step++ % packed_steps];
    std::ranges::sort(lengths, std::greater{});
    std::multimap<tokens, std::size_t> by_room;
    bins = 0;
    for (tokens const length : lengths) {
      auto const tightest = by_room.lower_bound(length);
      if (tightest == by_room.end()) {
        by_room.emplace(state.range(1) - length, bins++);
      } else {
        auto node = by_room.extract(tightest);
        node.key() -= length;
        by_room.insert(std::move(node));
      }
    }
    benchmark::DoNotOptimize(bins);
  }
}

BENCHMARK(multimap_best_fit)
    ->ArgNames({"samples", "capacity", "sigma10"})
    ->Args({64'000, 8192, 10})
    ->Unit(benchmark::kMillisecond);

// Baseline: NVIDIA NeMo's sequence packing, which looks at the bins one after the other for every
// sample, in decreasing order or shuffled. NeMo, in Python, also adds up every bin that it looks at;
// here each bin's sum is kept.
std::size_t scan_for_the_first_fit(std::span<tokens const> lengths, tokens capacity)
{
  std::vector<tokens> room;
  for (tokens const length : lengths) {
    auto const bin = std::ranges::find_if(room, [length](tokens left) { return left >= length; });
    if (bin == room.end()) {
      room.push_back(capacity - length);
    } else {
      *bin -= length;
    }
  }
  return room.size();
}

void nemo_first_fit(benchmark::State& state, bool shuffled)
{
  auto lengths = clamped_steps(state).front();
  ballast::random_source random(7);
  std::size_t bins = 0;
  for (auto _ : state) {
    if (shuffled) {
      random.shuffle(std::span(lengths));
    } else {
      std::ranges::sort(lengths, std::greater{});
    }
    bins = scan_for_the_first_fit(lengths, state.range(1));
    benchmark::DoNotOptimize(bins);
  }
  state.counters["bins"] = static_cast<double>(bins);
}

BENCHMARK_CAPTURE(nemo_first_fit, decreasing, false)
    ->ArgNames({"samples", "capacity", "sigma10"})
    ->Args({64'000, 8192, 10})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(nemo_first_fit, shuffled, true)
    ->ArgNames({"samples", "capacity", "sigma10"})
    ->Args({64'000, 8192, 10})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace
