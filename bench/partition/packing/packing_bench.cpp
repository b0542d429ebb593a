#include "../../common/workloads.hpp"  // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/partition/packing/pack.hpp>
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

// Baseline: best fit as one writes it with the standard library, a tree of open bins by the room
// they have left. Returns how many bins it opens.
std::size_t multimap_best_fit(std::vector<tokens> lengths, tokens capacity)
{
  std::ranges::sort(lengths, std::greater{});
  std::multimap<tokens, std::size_t> by_room;
  std::size_t bins = 0;
  for (tokens const length : lengths) {
    auto const tightest = by_room.lower_bound(length);
    if (tightest == by_room.end()) {
      by_room.emplace(capacity - length, bins++);
    } else {
      auto node = by_room.extract(tightest);
      node.key() -= length;
      by_room.insert(std::move(node));
    }
  }
  return bins;
}

// The whole front door in the steady state: sort, search, groups, bound. bins is of the first step,
// proven how many steps have the fewest bins that there can be, and gap by how much of the bound
// all bins are above it.
void run_packing(benchmark::State& state, std::vector<std::vector<tokens>> const& steps,
                 tokens capacity)
{
  ballast::packing_plan plan;
  ballast::workspace memory;
  auto const pack_step = [&](std::size_t step) {
    bool const done =
        ballast::pack_into(plan, memory, steps[step], {.most_per_gpu = capacity}).has_value();
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
  state.counters["best_fit"] = static_cast<double>(multimap_best_fit(steps[0], capacity));
  state.counters["proven"] = proven;
  state.counters["excess"] = excess / static_cast<double>(steps.size());
  state.counters["gap"] = excess / bounds;
  std::size_t step = 0;
  for (auto _ : state) {
    pack_step(step++ % steps.size());
    benchmark::ClobberMemory();
  }
}

void pack_to_cap(benchmark::State& state)
{
  run_packing(state, clamped_steps(state), state.range(1));
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

void pack_family(benchmark::State& state, weight_family family)
{
  run_packing(state, family_steps(family, static_cast<std::size_t>(state.range(0))), 10'000);
}

// Samples, capacity, and ten times the sigma of the lengths' distribution.
BENCHMARK(pack_to_cap)
    ->ArgNames({"samples", "capacity", "sigma10"})
    ->ArgsProduct({{200, 2000, 64'000}, {2048, 8192, 32'768}, {5, 10, 15}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(packed_steps);

// A trace of real lengths, from the folder that BALLAST_DATA names: those above the capacity are
// cut to it.
void pack_trace(benchmark::State& state, std::string const& file, char const* tokens_of)
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
  run_packing(state, {*lengths}, state.range(0));
}

bool const rows_are_registered = [] {
  constexpr std::pair<char const*, char const*> traces[] = {
      {"azure_llm_conv_2023.csv", "prompt_tokens+response_tokens"},
      {"servegen_mm_image_sampled.csv", "text_tokens+image_tokens_sum"}};
  for (auto const& [file, tokens_of] : traces) {
    benchmark::RegisterBenchmark((std::string("pack_trace/") + file).c_str(),
                                 [file = std::string(file), of = tokens_of](
                                     benchmark::State& state) { pack_trace(state, file, of); })
        ->ArgName("capacity")
        ->Arg(4096)
        ->Arg(8192)
        ->Arg(16'384)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(packed_steps);
  }
  constexpr std::pair<char const*, weight_family> families[] = {
      {"thirds", weight_family::thirds},       {"fifth_to_half", weight_family::fifth_to_half},
      {"two_kinds", weight_family::two_kinds}, {"near_thirds", weight_family::near_thirds},
      {"near_half", weight_family::near_half}, {"light", weight_family::light},
      {"full_bins", weight_family::full_bins}};
  for (auto const& each : families) {
    benchmark::RegisterBenchmark(
        (std::string("pack_family/") + each.first).c_str(),
        [family = each.second](benchmark::State& state) { pack_family(state, family); })
        ->ArgName("samples")
        ->Arg(200)
        ->Arg(2000)
        ->Arg(64'000)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(packed_steps);
  }
  return true;
}();

// Bins of 16,384 tokens and at most 16 samples, a multiple of eight. `over_bound`: bins above the
// bound; `largest`: the largest bin above its bound.
void pack_counts(benchmark::State& state)
{
  std::vector<tokens> lengths =
      bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)), 1.0, 42);
  for (tokens& length : lengths) { length = std::min<tokens>(length, 16'384); }
  ballast::packing_plan plan;
  ballast::workspace memory;
  for (auto _ : state) {
    bool const done =
        ballast::pack_into(plan, memory, lengths,
                           {.most_per_gpu = 16'384, .samples = ballast::counts::at_most(16)},
                           ballast::bins{.multiple_of = 8, .is_padded = state.range(1) != 0})
            .has_value();
    benchmark::DoNotOptimize(done);
  }
  state.counters["over_bound"] = static_cast<double>(plan.bins() - plan.lower_bound);
  state.counters["largest"] =
      static_cast<double>(plan.largest()) / static_cast<double>(plan.largest_bound) - 1;
}
BENCHMARK(pack_counts)
    ->ArgNames({"samples", "padded"})
    ->ArgsProduct({{512, 8192}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

// Samples of text and images: lognormal texts, of which 40 % have one to eight images of 256 to
// 1,024 tokens; bins of 16,384 tokens and so many images. Baseline: first fit in decreasing order of
// tokens, as one writes it with two caps.
void pack_tokens_and_images(benchmark::State& state)
{
  std::int64_t const most_tokens = 16'384;
  std::int64_t const most_images = state.range(1);
  double bins = 0, bound = 0, first_fit = 0, proven = 0;
  std::vector<std::pair<std::vector<tokens>, std::vector<std::int64_t>>> steps(packed_steps);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    auto& [lengths, images] = steps[step];
    ballast::random_source random(900 + step);
    lengths = bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)), 1.0, 42 + step);
    for (tokens& length : lengths) {
      images.push_back(random.below(10) < 4 ? random.between(1, 8) : 0);
      length = std::min(length + images.back() * random.between(256, 1024), most_tokens);
    }
    std::vector<std::size_t> order(lengths.size());
    for (std::size_t at = 0; at < order.size(); ++at) { order[at] = at; }
    std::ranges::stable_sort(order, std::greater{}, [&](std::size_t at) { return lengths[at]; });
    std::vector<std::pair<tokens, std::int64_t>> room;
    for (std::size_t const at : order) {
      auto const bin = std::ranges::find_if(room, [&](auto const& left) {
        return left.first >= lengths[at] && left.second >= images[at];
      });
      auto& chosen = bin == room.end() ? room.emplace_back(most_tokens, most_images) : *bin;
      chosen = {chosen.first - lengths[at], chosen.second - images[at]};
    }
    first_fit += static_cast<double>(room.size());
  }
  ballast::packing_plan plan;
  ballast::workspace memory;
  auto const pack_step = [&](std::size_t step) {
    bool const done =
        ballast::pack_into(plan, memory, steps[step].first,
                           {.most_per_gpu = most_tokens,
                            .also = {{.of = steps[step].second, .most_per_gpu = most_images}}})
            .has_value();
    benchmark::DoNotOptimize(done);
  };
  for (std::size_t step = 0; step < steps.size(); ++step) {
    pack_step(step);
    bins += static_cast<double>(plan.bins());
    bound += static_cast<double>(plan.lower_bound);
    proven += plan.proven_optimal() ? 1 : 0;
  }
  state.counters["gap"] = bins / bound - 1;
  state.counters["gap_of_first_fit"] = first_fit / bound - 1;
  state.counters["proven"] = proven;
  std::size_t step = 0;
  for (auto _ : state) { pack_step(step++ % steps.size()); }
}
BENCHMARK(pack_tokens_and_images)
    ->ArgNames({"samples", "images"})
    ->ArgsProduct({{16, 64, 300, 1000}, {8, 12, 16}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(packed_steps);

void best_fit_of_a_multimap(benchmark::State& state)
{
  auto const steps = clamped_steps(state);
  std::size_t step = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(multimap_best_fit(steps[step++ % packed_steps], state.range(1)));
  }
}
BENCHMARK(best_fit_of_a_multimap)
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
