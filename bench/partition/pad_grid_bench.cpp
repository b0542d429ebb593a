// SPDX-License-Identifier: Apache-2.0
#include "../common/plain_search.hpp"  // defines: bench::seed_of
#include "../common/workloads.hpp"     // defines: bench::lognormal_lengths

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/padded/pad_grid.hpp>

#include <functional>

namespace pad_grid_bench {

using ballast::cost_units;
using ballast::padded_lengths;
using ballast::tokens;
using lengths_of_step = std::vector<padded_lengths>;

// Lengths of a step: median and sigma of the sources, and of the targets for each source token, or,
// where they know nothing of the sources, for a source of the median.
struct mix {
  char const* name;
  double median;
  double sigma;
  double ratio;
  double sigma_of_ratio;
  bool is_independent;
};
constexpr mix mixes[] = {{"translation", 24, 0.7, 1.1, 0.25, false},
                         {"noisy_translation", 24, 0.7, 1.1, 0.6, false},
                         {"speech", 800, 0.5, 0.05, 0.3, false},
                         {"summaries", 700, 0.8, 0.08, 0.5, true},
                         {"one_length", 1024, 0.8, 0, 0, false}};

lengths_of_step draw(mix const& of, std::size_t samples, std::uint64_t seed)
{
  auto const factors = [&](double sigma, std::uint64_t of_seed) {  // in 1/1,024
    return bench::lognormal_lengths(samples, sigma, of_seed);
  };
  auto const sources = factors(of.sigma, seed);
  auto const ratios = factors(of.sigma_of_ratio == 0 ? 0.1 : of.sigma_of_ratio, seed + 1000);
  lengths_of_step lengths(samples);
  for (std::size_t at = 0; at < samples; ++at) {
    double const source = of.median * static_cast<double>(sources[at]) / 1024;
    double const base = (of.is_independent ? of.median : source) * of.ratio;
    lengths[at].source = 1 + static_cast<tokens>(source);
    lengths[at].target =
        of.ratio == 0 ? 0 : 1 + static_cast<tokens>(base * static_cast<double>(ratios[at]) / 1024);
  }
  return lengths;
}

// Encoder, decoder and cross attention.
cost_units cost_of(tokens source, tokens target)
{
  return 512 * (source + target) + source * target;
}

// Batches dealt to ranks, the costliest to the one with the least: what a careful trainer does.
cost_units dealt(lengths_of_step const& lengths,
                 std::vector<std::vector<std::size_t>> const& batches, std::size_t ranks)
{
  std::vector<cost_units> costs;
  for (auto const& batch : batches) {
    padded_lengths longest;
    for (std::size_t const sample : batch) { longest = longest.with(lengths[sample]); }
    costs.push_back(static_cast<cost_units>(batch.size()) *
                    cost_of(longest.source, longest.target));
  }
  std::ranges::sort(costs, std::greater{});
  std::vector<cost_units> loads(ranks);
  for (cost_units const cost : costs) { *std::ranges::min_element(loads) += cost; }
  return *std::ranges::max_element(loads);
}

std::vector<std::size_t> longest_first(lengths_of_step const& lengths)
{
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    tokens const one = lengths[a].source + lengths[a].target;
    tokens const other = lengths[b].source + lengths[b].target;
    return one > other || (one == other && a < b);
  });
  return order;
}

// Sorted, and cut into batches of equal counts.
cost_units equal_counts(lengths_of_step const& lengths, std::size_t ranks, std::size_t slots)
{
  auto const order = longest_first(lengths);
  std::vector<std::vector<std::size_t>> batches(ranks * slots);
  for (std::size_t at = 0; at < order.size(); ++at) {
    batches[at * batches.size() / order.size()].push_back(order[at]);
  }
  return dealt(lengths, batches, ranks);
}

// Sorted, and cut where a budget of padded tokens is full: the least budget that so many batches do
// with.
cost_units budget_of_tokens(lengths_of_step const& lengths, std::size_t ranks, std::size_t slots)
{
  auto const order = longest_first(lengths);
  std::vector<std::vector<std::size_t>> batches;
  tokens low = 1;
  tokens high = tokens{1} << 40;
  auto const fill = [&](tokens budget) {
    batches.assign(1, {});
    padded_lengths longest;
    for (std::size_t const sample : order) {
      padded_lengths const together = longest.with(lengths[sample]);
      auto const count = static_cast<tokens>(batches.back().size() + 1);
      if (count > 1 && count * (together.source + together.target) > budget) {
        batches.push_back({});
        longest = {};
      }
      longest = longest.with(lengths[sample]);
      batches.back().push_back(sample);
    }
    return batches.size() <= ranks * slots;
  };
  while (low < high) {
    tokens const middle = low + (high - low) / 2;
    bool const is_enough = fill(middle);
    (is_enough ? high : low) = is_enough ? middle : middle + 1;
  }
  static_cast<void>(fill(high));
  return dealt(lengths, batches, ranks);
}

// `saved`: how much shorter the step is than with sorted batches of a budget of tokens, the mean of
// four steps; `saved_counts`: than with equal counts; `over_bound`: above the bound.
void pad(benchmark::State& state)
{
  mix const& of = mixes[state.range(0)];
  auto const ranks = static_cast<std::size_t>(state.range(1));
  auto const slots = static_cast<std::size_t>(state.range(2));
  std::vector<lengths_of_step> steps;
  for (std::uint64_t step = 0; step < 4; ++step) {
    steps.push_back(draw(of, ranks * slots * static_cast<std::size_t>(state.range(3)), 42 + step));
  }
  auto const bags = ballast::one_gpu_bags(ranks);
  ballast::microbatches const options{.number = slots, .work = 4'000'000};
  std::size_t next = 0;
  for (auto _ : state) {
    auto const plan = ballast::pad_grid(steps[next++ % steps.size()], bags, options, cost_of);
    benchmark::DoNotOptimize(plan);
  }
  double over = 0;
  double saved = 0;
  double saved_counts = 0;
  for (auto const& lengths : steps) {
    auto const plan = ballast::pad_grid(lengths, bags, options, cost_of).value();
    double const makespan = plan.makespan.value();
    over += plan.gap();
    saved += 1 - makespan / static_cast<double>(budget_of_tokens(lengths, ranks, slots));
    saved_counts += 1 - makespan / static_cast<double>(equal_counts(lengths, ranks, slots));
  }
  auto const count = static_cast<double>(steps.size());
  state.counters["over_bound"] = over / count;
  state.counters["saved"] = saved / count;
  state.counters["saved_counts"] = saved_counts / count;
  state.SetLabel(of.name);
}
BENCHMARK(pad)
    ->Name("pad_grid")
    ->ArgNames({"mix", "ranks", "microbatches", "samples_each"})
    ->ArgsProduct({{0, 1, 2, 3, 4}, {8}, {4}, {32}})
    ->ArgsProduct({{0, 2}, {8}, {1}, {32}})
    ->ArgsProduct({{0, 2}, {64}, {4}, {32}})
    ->Unit(benchmark::kMillisecond);

// Sorted by source and then target, or by cost, and cut into as many runs as ranks: the least largest
// batch of the two.
cost_units sorted_cut(lengths_of_step const& lengths, std::size_t ranks)
{
  cost_units least = std::numeric_limits<cost_units>::max();
  auto const try_order = [&](auto const& key) {
    lengths_of_step order = lengths;
    std::ranges::sort(order, std::ranges::greater{}, key);
    auto const fills = [&](cost_units limit) {
      std::size_t batches = 1;
      cost_units samples = 0;
      padded_lengths longest;
      for (padded_lengths const each : order) {
        padded_lengths const together = longest.with(each);
        bool const fits = ++samples * cost_of(together.source, together.target) <= limit;
        longest = fits ? together : each;
        batches += fits ? 0 : 1;
        samples = fits ? samples : 1;
        if (cost_of(longest.source, longest.target) * samples > limit) { return false; }
      }
      return batches <= ranks;
    };
    cost_units low = 0;
    cost_units high = cost_units{1} << 40;
    while (low < high) {
      cost_units const middle = low + (high - low) / 2;
      bool const is_enough = fills(middle);
      (is_enough ? high : low) = is_enough ? middle : middle + 1;
    }
    least = std::min(least, high);
  };
  try_order([](padded_lengths each) { return std::pair(each.source, each.target); });
  try_order([](padded_lengths each) { return cost_of(each.source, each.target); });
  return least;
}

// 0: four classes, short or long on each side; 1: lengths of 1 to 4 units; 2: of 1 to 30 tokens.
lengths_of_step draw_kinds(std::int64_t family, ballast::random_source& random)
{
  lengths_of_step lengths;
  if (family == 0) {
    std::array<tokens, 2> const sources = {random.between(1, 64), random.between(100, 1000)};
    std::array<tokens, 2> const targets = {random.between(1, 64), random.between(100, 1000)};
    for (tokens const source : sources) {
      for (tokens const target : targets) {
        lengths.insert(lengths.end(), 1 + random.below(12), {source, target});
      }
    }
    return lengths;
  }
  lengths.resize(17 + random.below(40));
  for (padded_lengths& each : lengths) {
    if (family == 1) { each = {128 * random.between(1, 4), 128 * random.between(1, 4)}; }
    if (family == 2) { each = {random.between(1, 30), random.between(1, 30)}; }
  }
  return lengths;
}

// One batch for each of 2 to 8 ranks, 1,000 draws: how many are above a sorted cut, by how much the
// worst is; above the bound, on average and at most; and how many are proven.
void pad_kinds(benchmark::State& state)
{
  struct drawn {
    lengths_of_step lengths;
    std::size_t ranks;
  };
  std::vector<drawn> steps;
  ballast::random_source random(bench::seed_of(state, 42));
  for (int step = 0; step < 1000; ++step) {
    steps.push_back({draw_kinds(state.range(0), random), 2 + random.below(7)});
  }
  auto const planned = [](drawn const& step) {
    return ballast::pad_grid(step.lengths, ballast::one_gpu_bags(step.ranks), {.number = 1},
                             cost_of)
        .value();
  };
  std::size_t next = 0;
  for (auto _ : state) { benchmark::DoNotOptimize(planned(steps[next++ % steps.size()])); }
  int above = 0;
  int proven = 0;
  double worst = 0;
  double gap = 0;
  double largest_gap = 0;
  for (drawn const& step : steps) {
    auto const plan = planned(step);
    double const over =
        plan.makespan.value() / static_cast<double>(sorted_cut(step.lengths, step.ranks)) - 1;
    above += over > 0 ? 1 : 0;
    worst = std::max(worst, over);
    gap += plan.gap() / static_cast<double>(steps.size());
    largest_gap = std::max(largest_gap, plan.gap());
    proven += plan.proven_optimal() ? 1 : 0;
  }
  state.counters["above_cut"] = above;
  state.counters["worst"] = worst;
  state.counters["over_bound"] = gap;
  state.counters["most_over_bound"] = largest_gap;
  state.counters["proven"] = proven;
}
BENCHMARK(pad_kinds)->ArgNames({"family"})->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

// Batches of at most 16,384 padded tokens: how many, beside those of sorted samples, and the bound.
void to_cap(benchmark::State& state)
{
  auto const lengths = draw(mixes[state.range(0)], static_cast<std::size_t>(state.range(1)), 42);
  constexpr tokens cap = 16'384;
  auto const weight = [](tokens source, tokens target) { return source + target; };
  ballast::packing_plan plan;
  for (auto _ : state) {
    plan = ballast::pad_to_cap(lengths, weight, cap).value();
    benchmark::DoNotOptimize(plan);
  }
  std::size_t sorted = 1;
  tokens count = 0;
  padded_lengths longest;
  for (std::size_t const sample : longest_first(lengths)) {
    padded_lengths const together = longest.with(lengths[sample]);
    bool const fits = ++count * (together.source + together.target) <= cap;
    longest = fits ? together : lengths[sample];
    sorted += fits ? 0 : 1;
    count = fits ? count : 1;
  }
  state.counters["batches"] = static_cast<double>(plan.bins());
  state.counters["sorted"] = static_cast<double>(sorted);
  state.counters["bound"] = static_cast<double>(plan.lower_bound);
  state.SetLabel(mixes[state.range(0)].name);
}
BENCHMARK(to_cap)
    ->Name("pad_to_cap")
    ->ArgNames({"mix", "samples"})
    ->ArgsProduct({{0, 1, 2, 3}, {2048}})
    ->Unit(benchmark::kMillisecond);

}  // namespace pad_grid_bench
