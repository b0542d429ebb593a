#include "../../examples/common/baselines/quadratic_with_tolerance.hpp"
#include "../common/workloads.hpp"  // defines: bench::{lognormal_lengths, transformer_cost}

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

namespace bench {

// Baseline: grouping by length as data loaders do it, sorted and cut into equal counts.
struct grouped_by_length {
  void operator()(ballast::partition_problem const& problem, std::span<ballast::cost_units> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace&) const
  {
    std::size_t const each = (owner.size() + loads.size() - 1) / loads.size();
    for (std::size_t place = 0; place < owner.size(); ++place) {
      auto const [cost, sample] = problem.heaviest_first[place];
      owner[to_index(sample)] = ballast::to_id<ballast::bag_id>(place / each);
      loads[place / each] += cost;
    }
  }
  friend bool operator==(grouped_by_length, grouped_by_length) = default;
};

}  // namespace bench

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::partition_problem;
using ballast::tokens;
using ballast::workspace;

// Sorted steps, so that only the policy is timed. As in training, each iteration plans another one.
struct steps {
  std::vector<std::vector<tokens>> lengths;
  std::vector<std::vector<cost_units>> costs;
  std::vector<std::vector<ballast::priced_sample>> heaviest_first;
  std::vector<std::uint32_t> gpus;
  workspace memory;

  template <class CostOf>
  steps(std::size_t samples, std::size_t bags, double sigma, CostOf const& cost_of) : gpus(bags, 1)
  {
    std::size_t const count = std::max<std::size_t>((std::size_t{1} << 17) / samples, 4);
    for (std::size_t step = 0; step < count; ++step) {
      lengths.push_back(bench::lognormal_lengths(samples, sigma, /*seed=*/42 + step));
      costs.emplace_back();
      for (tokens const length : lengths.back()) { costs.back().push_back(cost_of(length)); }
      heaviest_first.emplace_back(samples);
      ballast::descending_order_into(heaviest_first.back(), costs.back(), memory);
    }
  }

  [[nodiscard]] partition_problem operator[](std::size_t step) const
  {
    return {costs[step], lengths[step], heaviest_first[step], gpus, gpus};
  }
};

struct planned {
  std::vector<cost_units> loads;
  std::vector<bag_id> owner;
  ballast::ratio proven;

  template <class Policy>
  void plan(partition_problem const& problem, Policy const& policy, workspace& memory)
  {
    loads.assign(problem.gpus.size(), 0);
    owner.assign(problem.costs.size(), ballast::to_id<bag_id>(problem.gpus.size()));
    proven = run_policy(policy, problem, loads, owner, memory);
  }

  [[nodiscard]] double padded_makespan(partition_problem const& problem) const
  {
    std::vector<std::pair<cost_units, cost_units>> batches(loads.size());  // count, largest
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      auto& [count, largest] = batches[to_index(owner[sample])];
      ++count;
      largest = std::max(largest, problem.costs[sample]);
    }
    cost_units makespan = 0;
    for (auto const& [count, largest] : batches) { makespan = std::max(makespan, count * largest); }
    return static_cast<double>(makespan);
  }
};

// A policy on sorted samples. over_optimum is how much longer its batches take, padded, than the
// proven optimum, in the mean over steps.
template <class Policy, class CostOf>
void pad(benchmark::State& state, Policy policy, CostOf cost_of)
{
  steps data(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
             static_cast<double>(state.range(2)) / 10, cost_of);
  planned plan;
  std::size_t step = 0;
  for (auto _ : state) {
    plan.plan(data[step++ % data.costs.size()], policy, data.memory);
    benchmark::DoNotOptimize(plan.owner.data());
    benchmark::ClobberMemory();
  }
  planned best;
  double over = 0;
  double proven = 0;
  for (step = 0; step < data.costs.size(); ++step) {
    plan.plan(data[step], policy, data.memory);
    best.plan(data[step], ballast::padded_batches{}, data.memory);
    double const optimum = best.padded_makespan(data[step]);
    over += plan.padded_makespan(data[step]) / optimum - 1;
    proven += optimum == best.proven.value() ? 1 : 0;
  }
  auto const count = static_cast<double>(data.costs.size());
  state.counters["over_optimum"] = over / count;
  state.counters["optimum_proven"] = proven / count;
}

void padded_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "bags", "tenths_of_sigma"})
      ->Args({2048, 64, 5})
      ->Args({2048, 64, 10})
      ->Args({65'536, 1024, 5})
      ->Args({65'536, 1024, 10})
      ->Unit(benchmark::kMicrosecond);
}

// What encoders that pad are charged: count x longest.
constexpr ballast::quadratic_cost by_longest{.linear = 1};

BENCHMARK_CAPTURE(pad, as_read, ballast::round_robin{}, by_longest)->Apply(padded_grid);
BENCHMARK_CAPTURE(pad, longest_processing_time, ballast::longest_processing_time{}, by_longest)
    ->Apply(padded_grid);
BENCHMARK_CAPTURE(pad, grouped_by_length, bench::grouped_by_length{}, by_longest)
    ->Apply(padded_grid);
BENCHMARK_CAPTURE(pad, padded_batches, ballast::padded_batches{}, by_longest)->Apply(padded_grid);
// Baseline: OrchMLLM's Algorithm 2 with the interval that it prints, from the shortest length to
// ceil(n / d) times it, and with the batches of its last probe. It makes more batches than there
// are ranks, so there is no makespan to compare: `batches_per_rank` should be 1.
void printed_interval(benchmark::State& state)
{
  auto const ranks = static_cast<std::size_t>(state.range(1));
  auto lengths = bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)),
                                          static_cast<double>(state.range(2)) / 10, /*seed=*/42);
  std::ranges::sort(lengths);
  auto const batches_of = [&lengths](tokens bound) {
    std::size_t batches = 1;
    tokens count = 0;
    for (tokens const length : lengths) {
      if (count > 0 && (count + 1) * length > bound) {
        ++batches;
        count = 0;
      }
      ++count;
    }
    return batches;
  };
  std::size_t batches = 0;
  for (auto _ : state) {
    tokens low = lengths.front();
    tokens high = low * static_cast<tokens>((lengths.size() + ranks - 1) / ranks);
    while (low < high) {
      tokens const middle = low + (high - low) / 2;
      batches = batches_of(middle);
      if (batches <= ranks) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    benchmark::DoNotOptimize(batches);
  }
  state.counters["batches_per_rank"] = static_cast<double>(batches) / static_cast<double>(ranks);
}
BENCHMARK(printed_interval)->Apply(padded_grid);

// The same with its interval corrected, from the longest length to ceil(n / d) times it, and with
// the batches made again at the end: over_optimum is against padded_batches.
void corrected_interval(benchmark::State& state)
{
  auto const ranks = static_cast<std::size_t>(state.range(1));
  auto const sigma = static_cast<double>(state.range(2)) / 10;
  steps data(static_cast<std::size_t>(state.range(0)), ranks, sigma, by_longest);
  std::vector<tokens> lengths;
  auto const batches_of = [&lengths](tokens bound, tokens& finish) {
    std::size_t batches = 1;
    tokens count = 0;
    finish = 0;
    for (tokens const length : lengths) {
      if (count > 0 && (count + 1) * length > bound) {
        ++batches;
        count = 0;
      }
      ++count;
      finish = std::max(finish, count * length);
    }
    return batches;
  };
  auto const search = [&](std::size_t step) {
    lengths.clear();
    for (auto const [cost, sample] : data.heaviest_first[step]) { lengths.push_back(cost); }
    std::ranges::reverse(lengths);
    tokens finish = 0;
    tokens low = lengths.back();
    tokens high = low * static_cast<tokens>((lengths.size() + ranks - 1) / ranks);
    while (low < high) {
      tokens const middle = low + (high - low) / 2;
      if (batches_of(middle, finish) <= ranks) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    batches_of(high, finish);
    return finish;
  };
  std::size_t step = 0;
  for (auto _ : state) { benchmark::DoNotOptimize(search(step++ % data.costs.size())); }
  planned best;
  double over = 0;
  for (step = 0; step < data.costs.size(); ++step) {
    best.plan(data[step], ballast::padded_batches{}, data.memory);
    over += static_cast<double>(search(step)) / best.padded_makespan(data[step]) - 1;
  }
  state.counters["over_optimum"] = over / static_cast<double>(data.costs.size());
}
BENCHMARK(corrected_interval)->Apply(padded_grid)->Unit(benchmark::kMicrosecond);

// Batches that pad attention alone, sum l + lambda b max l^2. `gap` is how far the busiest bag is
// above the certified bound of attention_padded_batches, in the mean over steps; lambda is 1 /
// linear.
template <class Policy>
void pad_attention(benchmark::State& state, Policy policy)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const bags = ballast::one_gpu_bags(static_cast<std::size_t>(state.range(1)));
  ballast::quadratic_cost const cost{static_cast<std::uint64_t>(state.range(3)), 1};
  std::vector<std::vector<tokens>> steps_of;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    steps_of.push_back(
        bench::lognormal_lengths(samples, static_cast<double>(state.range(2)) / 10, 42 + seed));
  }
  ballast::partition_plan plan;
  workspace memory;
  std::size_t step = 0;
  bool planned_all = true;
  for (auto _ : state) {
    auto const done = ballast::partition_into(plan, memory, steps_of[step++ % steps_of.size()],
                                              bags, cost, {}, policy);
    planned_all = planned_all && done.has_value();
    benchmark::ClobberMemory();
  }
  if (!planned_all) { state.SkipWithError("a step could not be planned"); }
  double gap = 0;
  for (auto const& lengths : steps_of) {
    auto const best =
        ballast::partition(lengths, bags, cost, {}, ballast::attention_padded_batches{}).value();
    auto const of = ballast::partition(lengths, bags, cost, {}, policy).value();
    std::vector<cost_units> packed(bags.size(), 0);
    std::vector<cost_units> largest(bags.size(), 0);
    cost_units makespan = 0;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      std::size_t const bag = to_index(of.owner[sample]);
      packed[bag] += of.costs[sample] - best.attention[sample];
      largest[bag] = std::max(largest[bag], best.attention[sample]);
    }
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      auto const count =
          static_cast<cost_units>(of.samples[ballast::to_id<ballast::bag_id>(bag)].size());
      makespan = std::max(makespan, packed[bag] + count * largest[bag]);
    }
    gap += static_cast<double>(makespan) / best.lower_bound.value() - 1;
  }
  state.counters["gap"] = gap / static_cast<double>(steps_of.size());
}

void attention_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "bags", "tenths_of_sigma", "linear"})
      ->Args({2048, 64, 5, 1024})
      ->Args({2048, 64, 5, 7680})
      ->Args({2048, 64, 10, 7680})
      ->Args({65'536, 1024, 5, 7680})
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(pad_attention, as_read, ballast::round_robin{})->Apply(attention_grid);
BENCHMARK_CAPTURE(pad_attention, longest_processing_time, ballast::longest_processing_time{})
    ->Apply(attention_grid);
BENCHMARK_CAPTURE(pad_attention, conv_transformer_batches, ballast::conv_transformer_batches{})
    ->Apply(attention_grid);
BENCHMARK_CAPTURE(pad_attention, attention_padded_batches, ballast::attention_padded_batches{})
    ->Apply(attention_grid);

// The same with lambda 1/7,680 on bags of several sizes (0: g1n4+g8n2, 1: g1n8+g2n4+g4n2+g8n1) and
// on 32 GPUs of several speeds (2: 60 and 100 in turn, 3: 50 to 100), 512 samples, 6 steps.
void pad_attention_uneven(benchmark::State& state)
{
  std::vector<std::uint32_t> speeds(32, 100);
  ballast::random_source random(1950);
  for (std::size_t gpu = 0; gpu < speeds.size(); ++gpu) {
    auto const drawn = static_cast<std::uint32_t>(random.between(50, 100));
    speeds[gpu] = state.range(0) == 3 ? drawn : gpu % 2 == 0 ? 60 : 100;
  }
  auto const sizes = ballast::parse_bags(state.range(0) == 0 ? "g1n4+g8n2" : "g1n8+g2n4+g4n2+g8n1");
  auto const nodes = state.range(0) == 0 ? ballast::cluster_of({4, 8, 8}) : ballast::cluster_of(32);
  auto const bags = state.range(0) > 1 ? ballast::one_gpu_bags(32).with_speeds(speeds)
                                       : ballast::lay_out(sizes.value(), nodes.value(),
                                                          ballast::misplaced_bags::largest_first)
                                             .value();
  ballast::partition_plan plan;
  workspace memory;
  double gaps = 0;
  std::uint64_t seed = 0;
  for (auto _ : state) {
    auto const lengths =
        bench::lognormal_lengths(512, static_cast<double>(state.range(1)) / 10, 42 + seed++);
    bool const done =
        ballast::partition_into(plan, memory, lengths, bags, ballast::quadratic_cost{7680, 1}, {},
                                ballast::attention_padded_batches{})
            .has_value();
    benchmark::DoNotOptimize(done);
    gaps += plan.gap();
  }
  state.counters["mean_gap"] = gaps / static_cast<double>(seed);
}
BENCHMARK(pad_attention_uneven)
    ->ArgNames({"bags", "tenths_of_sigma"})
    ->ArgsProduct({{0, 1, 2, 3}, {5, 10}})
    ->Iterations(6)
    ->Unit(benchmark::kMillisecond);

// Bags of two speeds in equal numbers. `orders` is 0 to fill the fastest first, or what it takes to
// search for the best order; over_optimum is against the latter.
void pad_two_speeds(benchmark::State& state)
{
  auto const bags = static_cast<std::size_t>(state.range(1));
  steps data(static_cast<std::size_t>(state.range(0)), bags, 0.5, by_longest);
  std::vector<std::uint32_t> speeds(bags, 2);
  std::fill_n(speeds.begin(), bags / 2, 3U);
  auto const problem = [&](std::size_t step) {
    partition_problem with_speeds = data[step];
    with_speeds.speeds = speeds;
    return with_speeds;
  };
  auto const longest_of = [&](planned const& plan) {
    double makespan = 0;
    for (std::size_t bag = 0; bag < bags; ++bag) {
      makespan = std::max(makespan, static_cast<double>(plan.loads[bag]) / speeds[bag]);
    }
    return makespan;
  };
  ballast::padded_batches const policy{.orders = static_cast<std::size_t>(state.range(2))};
  planned plan;
  std::size_t step = 0;
  for (auto _ : state) {
    plan.plan(problem(step++ % data.costs.size()), policy, data.memory);
    benchmark::DoNotOptimize(plan.owner.data());
    benchmark::ClobberMemory();
  }
  planned best;
  double over = 0;
  for (step = 0; step < data.costs.size(); ++step) {
    plan.plan(problem(step), policy, data.memory);
    best.plan(problem(step), ballast::padded_batches{.orders = 1 << 20}, data.memory);
    over += longest_of(plan) / longest_of(best) - 1;
  }
  state.counters["over_optimum"] = over / static_cast<double>(data.costs.size());
}
BENCHMARK(pad_two_speeds)
    ->ArgNames({"samples", "bags", "orders"})
    ->ArgsProduct({{2048}, {64}, {0, 8192}})
    ->Unit(benchmark::kMicrosecond);

// Bags of speeds from 50 to 100: how far the busiest is above the bound, in the mean of five steps.
void pad_many_speeds(benchmark::State& state)
{
  ballast::random_source random(50);
  std::vector<std::uint32_t> speeds(static_cast<std::size_t>(state.range(1)));
  for (auto& speed : speeds) { speed = static_cast<std::uint32_t>(random.between(50, 100)); }
  auto const bags = ballast::one_gpu_bags(speeds.size()).with_speeds(speeds);
  std::vector<std::vector<tokens>> steps_of;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    steps_of.push_back(bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)),
                                                static_cast<double>(state.range(2)) / 10,
                                                42 + seed));
  }
  ballast::partition_plan plan;
  workspace memory;
  double gaps = 0;
  std::size_t planned_steps = 0;
  for (auto _ : state) {
    bool const done = ballast::partition_into(plan, memory, steps_of[planned_steps++ % 5], bags,
                                              by_longest, {}, ballast::padded_batches{})
                          .has_value();
    benchmark::DoNotOptimize(done);
    gaps += plan.gap();
  }
  state.counters["mean_gap"] = gaps / static_cast<double>(planned_steps);
}
BENCHMARK(pad_many_speeds)
    ->ArgNames({"samples", "bags", "tenths_of_sigma"})
    ->Args({256, 16, 5})
    ->Args({256, 16, 10})
    ->Args({2048, 64, 5})
    ->Args({2048, 64, 10})
    ->Args({8192, 256, 10})
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

// OrchMLLM's Algorithm 4 against balancing the cost itself, both with costs 24 l d^2 + 4 l^2 d.
// gap is makespan over the mean or the heaviest sample, less 1; tolerance 0 stands for the cost.
void attend(benchmark::State& state)
{
  auto const bags = ballast::one_gpu_bags(static_cast<std::size_t>(state.range(1)));
  auto const lengths = bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)), 1.0,
                                                /*seed=*/42);
  tokens const tolerance = state.range(2);
  ballast::partition_plan plan;
  workspace memory;
  bool planned_all = true;
  for (auto _ : state) {
    auto const done =
        tolerance == 0
            ? ballast::partition_into(plan, memory, lengths, bags, bench::transformer_cost(), {},
                                      ballast::longest_processing_time{})
            : ballast::partition_into(plan, memory, lengths, bags, bench::transformer_cost(), {},
                                      baselines::quadratic_with_tolerance{tolerance});
    planned_all = planned_all && done.has_value();
    benchmark::ClobberMemory();
  }
  if (!planned_all) { state.SkipWithError("a step could not be planned"); }
  state.counters["gap"] = plan.gap();
}
BENCHMARK(attend)
    ->ArgNames({"samples", "bags", "tolerance"})
    ->ArgsProduct({{2048}, {64}, {0, 1, 1024, 16'384, 65'536}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
