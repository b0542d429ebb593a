// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/parallelism/place_experts.hpp>
#include <ballast/parallelism/share_experts.hpp>

#include <cmath>
#include <functional>
#include <queue>

namespace place_experts_bench {

// 0: lognormal, sigma 1; 1: Zipf 1.2; 2, 3: lognormal, sigma 0.3, with one hot expert of a fifth of
// all, or two of 15 and 12 %.
std::vector<std::int64_t> expert_loads(std::int64_t kind, std::size_t experts, std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::vector<double> loads;
  double total = 0;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    double normal = -6;
    for (int part = 0; part < 12; ++part) {
      normal += static_cast<double>(random.below(1 << 20)) / (1 << 20);
    }
    loads.push_back(kind == 1 ? 1e6 / std::pow(static_cast<double>(expert + 1), 1.2)
                              : 1000 * std::exp((kind == 0 ? 1.0 : 0.3) * normal));
    total += loads.back();
  }
  if (kind == 2) { loads[0] = 0.2 * total; }
  if (kind == 3) {
    loads[0] = 0.15 * total;
    loads[1] = 0.12 * total;
  }
  return {loads.begin(), loads.end()};
}

// The published greedy in our words: one more replica for the largest share until all slots are
// full, then the largest share to the GPU of the least load that has a slot left.
double greedy_makespan(std::vector<std::int64_t> const& loads, std::size_t gpus, std::size_t slots)
{
  std::priority_queue<std::pair<double, std::size_t>> largest;
  std::vector<double> replicas(loads.size(), 1);
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    largest.emplace(static_cast<double>(loads[expert]), expert);
  }
  for (std::size_t more = loads.size(); more < gpus * slots; ++more) {
    std::size_t const expert = largest.top().second;
    largest.pop();
    replicas[expert] += 1;
    largest.emplace(static_cast<double>(loads[expert]) / replicas[expert], expert);
  }
  std::vector<double> shares;
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    shares.insert(shares.end(), static_cast<std::size_t>(replicas[expert]),
                  static_cast<double>(loads[expert]) / replicas[expert]);
  }
  std::sort(shares.begin(), shares.end(), std::greater<>());
  using gpu_load = std::pair<double, std::size_t>;
  std::priority_queue<gpu_load, std::vector<gpu_load>, std::greater<>> lightest;
  std::vector<std::size_t> left(gpus, slots);
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) { lightest.emplace(0, gpu); }
  double makespan = 0;
  for (double const share : shares) {
    auto const [load, gpu] = lightest.top();
    lightest.pop();
    makespan = std::max(makespan, load + share);
    if (--left[gpu] > 0) { lightest.emplace(load + share, gpu); }
  }
  return makespan;
}

constexpr std::size_t steps = 8;

// Means over eight steps, or the one of Zipf: above the bound, also where shares may be uneven, and the
// greedy above the bound.
void place(benchmark::State& state)
{
  auto const experts = static_cast<std::size_t>(state.range(1));
  auto const gpus = static_cast<std::size_t>(state.range(2));
  std::vector<std::uint32_t> const slots(gpus, static_cast<std::uint32_t>(state.range(3)));
  double gap = 0;
  double uneven = 0;
  double greedy = 0;
  std::vector<std::vector<std::int64_t>> loads;
  for (std::size_t step = 0; step < steps; ++step) {
    loads.push_back(expert_loads(state.range(0), experts, step + 1));
    auto const placed = ballast::place_experts(loads.back(), slots).value();
    gap += placed.gap() / steps;
    uneven += ballast::place_experts(loads.back(), slots, {.uneven = true}).value().gap() / steps;
    greedy +=
        (greedy_makespan(loads.back(), gpus, slots.front()) / placed.lower_bound.value() - 1) /
        steps;
  }
  state.counters["gap"] = gap;
  state.counters["gap_of_uneven"] = uneven;
  state.counters["gap_of_greedy"] = greedy;
  std::size_t next = 0;
  for (auto _ : state) {
    auto const placed = ballast::place_experts(loads[next++ % steps], slots);
    benchmark::DoNotOptimize(placed);
  }
}
BENCHMARK(place)
    ->Name("place_experts")
    ->ArgNames({"loads", "experts", "gpus", "slots"})
    ->ArgsProduct({{0, 1, 2, 3}, {64}, {64}, {2, 3, 4, 5}})
    ->ArgsProduct({{0, 1, 2, 3}, {256}, {256}, {2, 3, 4, 5}})
    ->ArgsProduct({{0, 1, 2, 3}, {256}, {1024}, {1, 2, 3, 4}})
    ->Unit(benchmark::kMillisecond);

// Loads that have drifted by up to so many per cent: how many replicas stay on their GPUs, of how many,
// and how much longer the step is than with a placement that keeps none; `renamed`: how many stay of
// that one where each of its GPUs, in turn, becomes the GPU that keeps most.
void keep(benchmark::State& state)
{
  auto const experts = static_cast<std::size_t>(state.range(0));
  std::vector<std::uint32_t> const slots(experts, static_cast<std::uint32_t>(state.range(1)));
  std::vector<std::vector<std::int64_t>> loads;
  std::vector<ballast::expert_placement> before;
  double kept = 0;
  double replicas = 0;
  double longer = 0;
  double renamed = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    loads.push_back(expert_loads(0, experts, step + 1));
    before.push_back(ballast::place_experts(loads.back(), slots).value());
    ballast::random_source random(77 + step);
    for (std::int64_t& load : loads.back()) {
      std::int64_t const drift = load * state.range(2) / 100;
      load += random.between(-drift, drift);
    }
    auto const fresh = ballast::place_experts(loads.back(), slots).value();
    auto const moved =
        ballast::place_experts(loads.back(), slots, {.now = &before.back().experts}).value();
    kept += static_cast<double>(moved.kept) / steps;
    replicas += static_cast<double>(before.back().experts.values().size()) / steps;
    longer += (moved.makespan.value() / fresh.makespan.value() - 1) / steps;
    std::vector<bool> is_taken(experts, false);
    for (auto const now : before.back().experts) {
      std::size_t most = 0;
      std::size_t best = experts;
      for (std::size_t gpu = 0; gpu < experts; ++gpu) {
        if (is_taken[gpu]) { continue; }
        std::vector<ballast::expert_id> both;
        std::ranges::set_intersection(now, fresh.experts[ballast::to_id<ballast::rank_id>(gpu)],
                                      std::back_inserter(both));
        if (best == experts || both.size() > most) {
          best = gpu;
          most = both.size();
        }
      }
      is_taken[best] = true;
      renamed += static_cast<double>(most) / steps;
    }
  }
  state.counters["kept"] = kept;
  state.counters["of"] = replicas;
  state.counters["renamed"] = renamed;
  state.counters["longer"] = longer;
  std::size_t next = 0;
  for (auto _ : state) {
    std::size_t const step = next++ % steps;
    auto const moved = ballast::place_experts(loads[step], slots, {.now = &before[step].experts});
    benchmark::DoNotOptimize(moved);
  }
}
BENCHMARK(keep)
    ->Name("keep_experts")
    ->ArgNames({"experts", "slots", "drift"})
    ->ArgsProduct({{64}, {2, 3}, {5, 15}})
    ->ArgsProduct({{256}, {2}, {5, 15}})
    ->Unit(benchmark::kMillisecond);

// Copies for one batch of 16,384 tokens, eight experts each, of 256 experts at home on 64 GPUs, four
// on each: Zipf of tenths; how many are added, how many are proven to be needed, within a tolerance in
// thousandths.
void copy(benchmark::State& state)
{
  constexpr std::size_t experts = 256;
  constexpr std::size_t gpus = 64;
  std::vector<double> weights(experts);
  for (std::size_t expert = 0; expert < experts; ++expert) {
    weights[expert] =
        std::pow(static_cast<double>(expert + 1), -static_cast<double>(state.range(0)) / 10);
  }
  double const all = std::reduce(weights.begin(), weights.end());
  std::vector<std::int64_t> loads(experts);
  ballast::jagged<ballast::rank_id, ballast::expert_id> homes;
  std::size_t next = 0;
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    for (std::size_t each = 0; each < experts / gpus; ++each, ++next) {
      loads[next] = std::llround(weights[next * 37 % experts] / all * 16'384 * 8);
      homes.push_back(ballast::to_id<ballast::expert_id>(next));
    }
    homes.end_row();
  }
  std::vector<std::uint32_t> const slots(
      gpus, static_cast<std::uint32_t>(experts / gpus + static_cast<std::size_t>(state.range(1))));
  ballast::expert_rules const rules{
      .now = &homes, .tolerance = {state.range(2), 1000}, .uneven = true};
  ballast::expert_placement placed;
  for (auto _ : state) { placed = ballast::place_experts(loads, slots, rules).value(); }
  state.counters["gap"] = placed.gap();
  state.counters["added"] = static_cast<double>(placed.experts.values().size() - placed.kept);
  state.counters["least_added"] = static_cast<double>(placed.least_added);
}
BENCHMARK(copy)
    ->Name("copy_experts")
    ->ArgNames({"zipf_tenths", "free_slots", "permille"})
    ->ArgsProduct({{5, 10, 12}, {1, 4}, {0, 10, 50}})
    ->Unit(benchmark::kMillisecond);

// The best shares of a batch that has other loads than the placement was made for.
void share(benchmark::State& state)
{
  auto const experts = static_cast<std::size_t>(state.range(0));
  std::vector<std::uint32_t> const slots(static_cast<std::size_t>(state.range(1)), 3);
  auto const placed = ballast::place_experts(expert_loads(0, experts, 1), slots).value();
  auto counted = expert_loads(0, experts, 1);
  ballast::random_source random(9);
  for (auto& load : counted) { load += random.between(-load / 4, load / 4); }
  double even = 0;
  for (std::size_t gpu = 0; gpu < slots.size(); ++gpu) {
    double load = 0;
    for (auto const expert : placed.experts[ballast::to_id<ballast::rank_id>(gpu)]) {
      load += static_cast<double>(counted[to_index(expert)]) /
              static_cast<double>(placed.gpus[expert].size());
    }
    even = std::max(even, load);
  }
  ballast::expert_shares shares;
  for (auto _ : state) {
    shares = ballast::share_experts(counted, placed.gpus, slots.size()).value();
    benchmark::DoNotOptimize(shares);
  }
  auto const mean = static_cast<double>(std::reduce(counted.begin(), counted.end())) /
                    static_cast<double>(slots.size());
  state.counters["over_mean"] = shares.makespan.value() / mean;
  state.counters["even_over_mean"] = even / mean;
}
BENCHMARK(share)
    ->Name("share_experts")
    ->ArgNames({"experts", "gpus"})
    ->Args({64, 64})
    ->Args({256, 256})
    ->Args({256, 1024})
    ->Unit(benchmark::kMillisecond);

}  // namespace place_experts_bench
