#include "../../common/plain_search.hpp"  // the baselines N1 and N2
#include "../../common/workloads.hpp"     // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::cost_vector;
using ballast::tokens;

// Encoder and LLM time of a multimodal step: text and visual lengths are lognormal and cut to a
// context, three samples in ten have no image, and the LLM sees a quarter of the visual tokens.
// The encoder's work is `percent` of the LLM's, as where it has fewer or more GPUs: at 100 both
// are tight, which is the hard case.
struct multimodal_step {
  std::vector<cost_vector<2>> costs;
  std::vector<tokens> lengths;  // what the LLM reads
};

multimodal_step encoder_and_llm(std::size_t samples, std::int64_t percent, std::uint64_t seed)
{
  auto const text = bench::lognormal_lengths(samples, 1.0, seed);
  auto const visual = bench::lognormal_lengths(samples, 1.0, seed + 1000);
  ballast::random_source random(seed);
  multimodal_step step{std::vector<cost_vector<2>>(samples), std::vector<tokens>(samples)};
  auto& costs = step.costs;
  cost_vector<2> total{};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    bool const has_image = random.below(10) >= 3;
    tokens const seen = has_image ? std::min<tokens>(2 * visual[sample], 8192) : 0;
    tokens const read = std::min<tokens>(text[sample], 8192) + seen / 4;
    // 24 l d^2 + 4 l^2 d per layer, 24 layers of width 1280 and 32 of width 3072, in 2^25 FLOP:
    // some 10^7 units to a bin.
    auto const work = [](tokens length, std::int64_t layers, std::int64_t width) {
      return layers * (24 * length * width * width + 4 * length * length * width) >> 25;
    };
    costs[sample] = {work(seen, 24, 1280), work(read, 32, 3072)};
    step.lengths[sample] = read;
    for (std::size_t d = 0; d < 2; ++d) { total[d] += costs[sample][d]; }
  }
  for (auto& cost : costs) {
    cost[0] = static_cast<cost_units>(static_cast<ballast::uint128>(cost[0] * percent) *
                                      static_cast<std::uint64_t>(total[1]) /
                                      static_cast<std::uint64_t>(100 * total[0]));
  }
  return step;
}

// What users have today: LPT on one number per sample, with a heap. DFLOP falls back to it when its
// integer program finds nothing in time.
enum class looked_at { llm, sum };
struct one_number_lpt {
  looked_at what = looked_at::sum;

  void operator()(ballast::cost_vector_problem<2> const& problem, std::span<cost_vector<2>> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace&) const
  {
    auto const number = [this](cost_vector<2> const& cost) {
      return what == looked_at::llm ? cost[1] : cost[0] + cost[1];
    };
    std::vector<std::size_t> order(owner.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
      cost_units const number_a = number(problem.costs[a]);
      cost_units const number_b = number(problem.costs[b]);
      return number_a > number_b || (number_a == number_b && a < b);
    });
    struct open_bin {
      cost_units load;
      std::size_t bin;
    };
    auto const heavier = [](open_bin const& a, open_bin const& b) {
      return a.load > b.load || (a.load == b.load && a.bin > b.bin);
    };
    std::vector<open_bin> heap;
    for (std::size_t bin = 0; bin < loads.size(); ++bin) { heap.push_back({0, bin}); }
    for (std::size_t const sample : order) {
      std::ranges::pop_heap(heap, heavier);
      open_bin& lightest = heap.back();
      owner[sample] = ballast::to_id<ballast::bag_id>(lightest.bin);
      lightest.load += number(problem.costs[sample]);
      for (std::size_t d = 0; d < 2; ++d) { loads[lightest.bin][d] += problem.costs[sample][d]; }
      std::ranges::push_heap(heap, heavier);
    }
  }

  friend bool operator==(one_number_lpt, one_number_lpt) = default;
};

// The whole front door in the steady state: costs, policy, groups, bound. gap and worst_gap are the
// mean and the largest over all steps, and proven of how many steps the plan is proven optimal.
template <class Policy>
void plan_vectors(benchmark::State& state, Policy policy)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const bags = ballast::one_gpu_bags(static_cast<std::size_t>(state.range(1)));
  std::vector<std::vector<cost_vector<2>>> steps(samples < 10'000 ? 20 : 3);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    steps[step] = encoder_and_llm(samples, state.range(2), 42 + step).costs;
  }
  ballast::cost_vector_plan<2> plan;
  ballast::workspace memory;
  auto const plan_step = [&](std::size_t step) {
    bool const done = ballast::partition_into(plan, memory, steps[step], bags, std::identity{},
                                              ballast::no_length{}, {}, policy)
                          .has_value();
    benchmark::DoNotOptimize(done);
  };
  double sum = 0;
  double worst = 0;
  double proven = 0;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    plan_step(step);
    sum += plan.gap();
    worst = std::max(worst, plan.gap());
    proven += plan.proven_optimal() ? 1 : 0;
  }
  state.counters["gap"] = sum / static_cast<double>(steps.size());
  state.counters["worst_gap"] = worst;
  state.counters["proven"] = proven;
  state.counters["steps"] = static_cast<double>(steps.size());
  std::size_t step = 0;
  for (auto _ : state) {
    plan_step(step++ % steps.size());
    benchmark::ClobberMemory();
  }
}

// Samples, bins, and the encoder's work in percent of the LLM's.
void vector_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "bins", "percent"})
      ->ArgsProduct({{2048}, {64}, {50, 100}})
      ->ArgsProduct({{65'536}, {1024}, {50, 100}})
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(plan_vectors, lpt_of_llm, one_number_lpt{looked_at::llm})->Apply(vector_grid);
BENCHMARK_CAPTURE(plan_vectors, lpt_of_sum, one_number_lpt{looked_at::sum})->Apply(vector_grid);
BENCHMARK_CAPTURE(plan_vectors, vector_lpt, ballast::longest_processing_time{})->Apply(vector_grid);
BENCHMARK_CAPTURE(plan_vectors, refine, ballast::refine{})->Apply(vector_grid);

// Baselines where bags hold so many tokens and GPUs are of two speeds: in turn to the next bag with
// room; and by the LLM's time, longest first, to the bag with room that then finishes first.
enum class goes_to { next, earliest };
struct first_with_room {
  goes_to what = goes_to::next;
  std::span<std::int64_t const> weights = {};
  std::int64_t most = 0;  // weight of a bag; the front door tells a policy of none

  void operator()(ballast::cost_vector_problem<2> const& problem, std::span<cost_vector<2>> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace&) const
  {
    std::vector<std::int64_t> room(loads.size(), most);
    std::vector<std::size_t> order(owner.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (what == goes_to::earliest) {
      std::ranges::stable_sort(order, std::greater{},
                               [&](std::size_t sample) { return problem.costs[sample][1]; });
    }
    std::size_t turn = 0;
    for (std::size_t const sample : order) {
      std::size_t best = loads.size();
      ballast::ratio earliest;
      for (std::size_t step = 0; step < loads.size(); ++step) {
        std::size_t const bag = (turn + step) % loads.size();
        if (room[bag] < weights[sample]) { continue; }
        ballast::ratio const finish{loads[bag][1] + problem.costs[sample][1], problem.speeds[bag]};
        if (best < loads.size() && finish >= earliest) { continue; }
        best = bag;
        earliest = finish;
        if (what == goes_to::next) { break; }
      }
      if (best == loads.size()) {  // it overruns the bag that it overruns least
        best = static_cast<std::size_t>(std::ranges::max_element(room) - room.begin());
      }
      turn = what == goes_to::next ? best + 1 : 0;
      owner[sample] = ballast::to_id<ballast::bag_id>(best);
      room[best] -= weights[sample];
      for (std::size_t d = 0; d < 2; ++d) { loads[best][d] += problem.costs[sample][d]; }
    }
  }
};

// Both parts equally busy, on bags of one GPU of which every other one does 60 % of what its
// neighbours do, and each holds the mean number of tokens and some slack. Steps that a policy finds
// no room for count as refused.
template <class Policy>
void vectors_in_bags(benchmark::State& state, Policy policy)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const gpus = static_cast<std::size_t>(state.range(1));
  std::vector<multimodal_step> steps(20);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    steps[step] = encoder_and_llm(samples, 100, 42 + step);
  }
  std::vector<std::uint32_t> speeds(gpus, 100);
  for (std::size_t gpu = 1; gpu < gpus; gpu += 2) { speeds[gpu] = 60; }
  auto const bags = ballast::one_gpu_bags(gpus).with_speeds(speeds);
  ballast::cost_vector_plan<2> plan;
  ballast::workspace memory;
  std::vector<std::size_t> numbers(samples);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  auto const plan_step = [&](multimodal_step const& step) {
    tokens const all = std::reduce(step.lengths.begin(), step.lengths.end(), tokens{0});
    tokens const most = all * (1000 + state.range(2)) / (1000 * static_cast<tokens>(gpus)) + 1;
    auto const costs_of = [&](std::size_t sample) { return step.costs[sample]; };
    auto const length_of = [&](std::size_t sample) { return step.lengths[sample]; };
    ballast::placement_limits limits{.most_per_gpu = most};
    if constexpr (requires { policy.most; }) {
      policy.weights = step.lengths;
      policy.most = most;
      limits = {};
    }
    if (!ballast::partition_into(plan, memory, numbers, bags, costs_of, length_of, limits,
                                 policy)) {
      return false;
    }
    std::vector<tokens> held(gpus, 0);
    for (std::size_t const sample : numbers) {
      held[to_index(plan.owner[sample])] += step.lengths[sample];
    }
    return std::ranges::max(held) <= most;
  };
  double sum = 0;
  double worst = 0;
  int planned = 0;
  for (auto const& step : steps) {
    if (!plan_step(step)) { continue; }
    sum += plan.gap();
    worst = std::max(worst, plan.gap());
    ++planned;
  }
  state.counters["gap"] = sum / std::max(planned, 1);
  state.counters["worst_gap"] = worst;
  state.counters["refused"] = static_cast<double>(steps.size()) - planned;
  std::size_t step = 0;
  for (auto _ : state) {
    bool const done = plan_step(steps[step++ % steps.size()]);
    benchmark::DoNotOptimize(done);
    benchmark::ClobberMemory();
  }
}

// Samples, GPUs, and by how much of the mean a GPU holds more.
void bag_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "gpus", "slack_permille"})
      ->ArgsProduct({{2048}, {64}, {20, 100, 300, 1000}})
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(vectors_in_bags, round_robin, first_with_room{goes_to::next})->Apply(bag_grid);
BENCHMARK_CAPTURE(vectors_in_bags, lpt_of_llm, first_with_room{goes_to::earliest})->Apply(bag_grid);
BENCHMARK_CAPTURE(vectors_in_bags, vector_lpt, ballast::longest_processing_time{})->Apply(bag_grid);
BENCHMARK_CAPTURE(vectors_in_bags, refine, ballast::refine{})->Apply(bag_grid);

namespace beside_swaps {

enum class drawn { equal_bags, speeds, cap_3_percent, cap_1_percent };

// A fifth of the samples have none of a quantity; weights follow from costs or not.
template <std::size_t D>
bench::plain_step<D> drawn_step(ballast::random_source& random, std::size_t samples,
                                std::size_t bags, drawn kind)
{
  bench::plain_step<D> step{
      .costs = std::vector<cost_vector<D>>(samples),
      .lengths = std::vector<tokens>(samples, 1),
      .gpus = std::vector<std::uint32_t>(bags, 1),
      .speeds = std::vector<std::uint32_t>(bags, 1),
      .weights = std::vector<std::int64_t>(samples, 0),
  };
  bool const is_uniform = random.below(3) == 0;
  for (std::size_t d = 0; d < D; ++d) {
    auto const lengths = bench::lognormal_lengths(samples, 1.0, random());
    for (std::size_t sample = 0; sample < samples; ++sample) {
      if (random.below(5) == 0) { continue; }
      step.costs[sample][d] = is_uniform ? random.between(1, 10'000) : lengths[sample];
    }
  }
  for (auto& speed : step.speeds) {
    if (kind == drawn::speeds) { speed = static_cast<std::uint32_t>(random.between(40, 100)); }
  }
  if (kind == drawn::equal_bags || kind == drawn::speeds) { return step; }
  bool const follow = random.below(2) == 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    auto const& cost = step.costs[sample];
    step.weights[sample] =
        follow ? 1 + std::reduce(cost.begin(), cost.end()) / 3 : random.between(1, 2'000);
  }
  std::int64_t const all = std::reduce(step.weights.begin(), step.weights.end());
  std::int64_t const percent = kind == drawn::cap_1_percent ? 101 : 103;
  step.most_weight = std::max(std::ranges::max(step.weights),
                              all * percent / 100 / static_cast<std::int64_t>(bags) + 1);
  return step;
}

// Drawn steps of D quantities beside N1 and N2, which start from longest_processing_time's plan; N2
// has the CPU time that refine takes.
template <std::size_t D>
void vectors_beside_swaps(benchmark::State& state, std::integral_constant<std::size_t, D>,
                          drawn kind)
{
  struct shape {
    std::size_t samples;
    std::size_t bags;
  };
  ballast::workspace memory;
  bench::compared_plans n1;
  bench::compared_plans n2;
  double seconds = 0;
  double steps = 0;
  for (auto _ : state) {
    ballast::random_source random(
        bench::seed_of(state, 470 + 10 * D + static_cast<std::uint64_t>(kind)));
    for (int trial = 0; trial < 90; ++trial) {
      constexpr std::array<shape, 5> shapes{{{12, 4}, {24, 4}, {48, 8}, {128, 16}, {400, 16}}};
      auto const [fewest, count] = shapes[static_cast<std::size_t>(trial) % shapes.size()];
      auto step = drawn_step<D>(random, fewest + random.below(count), count, kind);
      auto const bags = ballast::one_gpu_bags(count).with_speeds(step.speeds);
      auto const plan_by = [&](auto const& policy) {
        ballast::placement_limits limits;
        if (step.most_weight > 0) {
          limits.also = {{.of = step.weights, .most_per_gpu = step.most_weight}};
        }
        ballast::cost_vector_plan<D> plan;
        bool const done = ballast::partition_into(plan, memory, step.costs, bags, std::identity{},
                                                  ballast::no_length{}, limits, policy)
                              .has_value();
        return done ? std::optional(std::move(plan)) : std::nullopt;
      };
      double const before = bench::cpu_seconds();
      auto const plan = plan_by(ballast::refine{});
      double const took = bench::cpu_seconds() - before;
      auto const greedy = plan_by(ballast::longest_processing_time{});
      if (!plan || !greedy) { continue; }
      seconds += took;
      ++steps;
      bench::compare_with_plain_search<D>(*plan, std::move(step), greedy->owner, took, n1, n2);
    }
  }
  n1.count(state, "n1");
  n2.count(state, "n2");
  state.counters["steps"] = steps;
  state.counters["mean_ms"] = 1e3 * seconds / steps;
}

constexpr std::integral_constant<std::size_t, 2> two;
constexpr std::integral_constant<std::size_t, 3> three;
constexpr std::integral_constant<std::size_t, 4> four;
BENCHMARK_CAPTURE(vectors_beside_swaps, 2_equal_bags, two, drawn::equal_bags)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 3_equal_bags, three, drawn::equal_bags)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 4_equal_bags, four, drawn::equal_bags)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 2_speeds, two, drawn::speeds)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 3_speeds, three, drawn::speeds)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 4_speeds, four, drawn::speeds)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 2_cap_3, two, drawn::cap_3_percent)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 3_cap_3, three, drawn::cap_3_percent)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 4_cap_3, four, drawn::cap_3_percent)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 2_cap_1, two, drawn::cap_1_percent)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 3_cap_1, three, drawn::cap_1_percent)->Iterations(1);
BENCHMARK_CAPTURE(vectors_beside_swaps, 4_cap_1, four, drawn::cap_1_percent)->Iterations(1);

}  // namespace beside_swaps
}  // namespace
