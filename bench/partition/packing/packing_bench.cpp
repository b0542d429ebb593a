#include "../../common/workloads.hpp"  // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/partition/packing/best_fit_decreasing.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>
#include <ballast/partition/packing/minimum_bin_slack.hpp>
#include <ballast/partition/packing/pack_to_capacity.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/packing/refine_bins.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
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
// proven how many steps have the fewest bins that there can be, and gap by how much of the bound
// all bins are above it.
template <class Policy>
void run_packing(benchmark::State& state, std::vector<std::vector<tokens>> const& steps,
                 tokens capacity, Policy policy)
{
  ballast::packing_plan plan;
  ballast::workspace memory;
  auto const pack_step = [&](std::size_t step) {
    bool const done =
        ballast::pack_to_capacity_into(plan, memory, steps[step], capacity, policy).has_value();
    benchmark::DoNotOptimize(done);
  };
  double proven = 0;
  double excess = 0;
  double bounds = 0;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    pack_step(step);
    proven += plan.proven_optimal() ? 1 : 0;
    excess += static_cast<double>(plan.bins() - plan.lower_bound);
    bounds += static_cast<double>(plan.lower_bound);
  }
  pack_step(0);
  state.counters["bins"] = static_cast<double>(plan.bins());
  state.counters["bound"] = static_cast<double>(plan.lower_bound);
  state.counters["proven"] = proven;
  state.counters["excess"] = excess / static_cast<double>(steps.size());
  state.counters["gap"] = excess / bounds;
  std::size_t step = 0;
  for (auto _ : state) {
    pack_step(step++ % steps.size());
    benchmark::ClobberMemory();
  }
}

template <class Policy>
void pack_to_cap(benchmark::State& state, Policy policy)
{
  run_packing(state, clamped_steps(state), state.range(1), policy);
}

// Families of weights far from lognormal ones, in bins of 10,000.
enum class weight_family : std::uint8_t {
  thirds,
  fifth_to_half,
  two_kinds,
  near_thirds,
  near_half,
  light,
  full_bins
};

std::vector<tokens> drawn_weights(weight_family family, std::size_t samples,
                                  ballast::random_source& random)
{
  std::vector<tokens> weights;
  auto const draw = [&](tokens from, tokens to) {
    while (weights.size() < samples) { weights.push_back(random.between(from, to)); }
  };
  switch (family) {
    case weight_family::thirds: draw(2600, 3400); break;
    case weight_family::fifth_to_half: draw(2000, 5000); break;
    case weight_family::two_kinds:
      while (weights.size() < samples) { weights.push_back(3000 + 1000 * random.between(0, 1)); }
      break;
    case weight_family::near_thirds: draw(3300, 3366); break;
    case weight_family::near_half: draw(4500, 5500); break;
    case weight_family::light: draw(100, 1000); break;
    case weight_family::full_bins:  // of three to six parts
      while (weights.size() < samples) {
        std::vector<tokens> cuts{0, 10'000};
        for (auto parts = random.between(3, 6); parts > 1; --parts) {
          cuts.push_back(random.between(1, 9999));
        }
        std::ranges::sort(cuts);
        for (std::size_t cut = 1; cut < cuts.size(); ++cut) {
          if (cuts[cut] > cuts[cut - 1]) { weights.push_back(cuts[cut] - cuts[cut - 1]); }
        }
      }
      break;
  }
  return weights;
}

std::vector<std::vector<tokens>> family_steps(weight_family family, std::size_t samples)
{
  std::vector<std::vector<tokens>> steps(packed_steps);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    ballast::random_source random(100 + step);
    steps[step] = drawn_weights(family, samples, random);
  }
  return steps;
}

template <class Policy>
void pack_family(benchmark::State& state, weight_family family, Policy policy)
{
  auto const steps = family_steps(family, static_cast<std::size_t>(state.range(0)));
  run_packing(state, steps, 10'000, policy);
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

BENCHMARK_CAPTURE(pack_to_cap, refine_bins, ballast::refine_bins<>{})
    ->ArgNames({"samples", "capacity", "sigma10"})
    ->ArgsProduct({{200, 2000, 64'000}, {2048, 8192, 32'768}, {5, 10, 15}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(packed_steps);

void family_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgName("samples")
      ->Arg(200)
      ->Arg(2000)
      ->Arg(64'000)
      ->Unit(benchmark::kMillisecond)
      ->Iterations(packed_steps);
}

template <class Policy>
void register_families(char const* policy_name, Policy policy)
{
  constexpr std::pair<char const*, weight_family> families[] = {
      {"thirds", weight_family::thirds},       {"fifth_to_half", weight_family::fifth_to_half},
      {"two_kinds", weight_family::two_kinds}, {"near_thirds", weight_family::near_thirds},
      {"near_half", weight_family::near_half}, {"light", weight_family::light},
      {"full_bins", weight_family::full_bins}};
  for (auto const& each : families) {
    weight_family const family = each.second;
    std::string const row = std::string("pack_family/") + each.first + "/" + policy_name;
    family_grid(benchmark::RegisterBenchmark(
        row.c_str(),
        [family, policy](benchmark::State& state) { pack_family(state, family, policy); }));
  }
}

// A trace of real lengths, from the folder that BALLAST_DATA names: those above the capacity are
// cut to it.
template <class Policy>
void pack_trace(benchmark::State& state, std::string const& file, char const* tokens_of,
                Policy policy)
{
  char const* const folder = std::getenv("BALLAST_DATA");
  auto lengths =
      ballast::read_file((folder == nullptr ? std::string(".") : std::string(folder)) + "/" + file,
                         ballast::read_length_trace, tokens_of);
  if (!lengths) {
    state.SkipWithError("BALLAST_DATA names no folder with this trace");
    return;
  }
  for (tokens& length : *lengths) { length = std::min(length, state.range(0)); }
  run_packing(state, {*lengths}, state.range(0), policy);
}

template <class Policy>
void register_traces(char const* policy_name, Policy policy)
{
  constexpr std::pair<char const*, char const*> traces[] = {
      {"azure_llm_conv_2023.csv", "prompt_tokens+response_tokens"},
      {"servegen_mm_image_sampled.csv", "text_tokens+image_tokens_sum"}};
  for (auto const& each : traces) {
    std::string const file = each.first;
    char const* const tokens_of = each.second;
    std::string const row = std::string("pack_trace/") + file + "/" + policy_name;
    benchmark::RegisterBenchmark(row.c_str(),
                                 [file, tokens_of, policy](benchmark::State& state) {
                                   pack_trace(state, file, tokens_of, policy);
                                 })
        ->ArgName("capacity")
        ->Arg(4096)
        ->Arg(8192)
        ->Arg(16'384)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(packed_steps);
  }
}

bool const families_are_registered = [] {
  register_traces("first_fit_decreasing", ballast::first_fit_decreasing{});
  register_traces("minimum_bin_slack", ballast::minimum_bin_slack{});
  register_traces("refine_bins", ballast::refine_bins<>{});
  register_families("first_fit_decreasing", ballast::first_fit_decreasing{});
  register_families("refine_bins", ballast::refine_bins<>{});
  return true;
}();

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
// sample, in decreasing order or shuffled. NeMo, in Python, also adds up every bin that it looks
// at; here each bin's sum is kept.
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
