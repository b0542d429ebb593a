// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/random_shardings.hpp"  // defines: ballast_test::draw_sharding
#include "../../tests/support/sharding_oracles.hpp"  // defines: ballast_test::search_from_best_uniform
#include "../../tests/support/sharding_strategies.hpp"  // defines: ballast_test::{outcome_of, one_degree}

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/sharding/detail/shard_moves.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <cstdlib>

namespace {

using ballast::tokens;

constexpr std::size_t sharded_steps = 8;
constexpr tokens tokens_that_fit = 65'536;

// Llama-3 8B at 400 TFLOP/s on nodes of eight, with 450 GB/s inside them and 50 GB/s between them;
// lengths of median 2,048, as reinforcement learning draws them.
struct sharded_llama {
  ballast::device_groups groups;
  ballast::sharding_cost cost;
  std::vector<std::vector<tokens>> steps;

  sharded_llama(std::size_t gpus, std::size_t samples)
  {
    auto const machines = ballast::cluster_of(gpus).value();
    groups = ballast::device_groups(machines.nodes, 32);
    for (auto const& model : ballast::known_models) {
      if (model.name != "llama3-8b") { continue; }
      ballast::gamma_fit const fit{.seconds_per_flop = 1 / 400e12, .gamma = 1};
      cost = ballast::sharding_cost_of(model.shape, fit, machines).value();
    }
    ballast::random_source random(22);
    for (std::size_t step = 0; step < sharded_steps; ++step) {
      steps.push_back(ballast::draw_lengths(
          ballast::clamped_lengths{ballast::lognormal_lengths{.median = 2048, .sigma = 1.5}, 1,
                                   131'072},
          samples, random));
    }
  }
};

void few_gpus_and_many(benchmark::internal::Benchmark* row)
{
  row->ArgNames({"gpus", "sequences"})
      ->Args({64, 512})
      ->Args({1024, 8192})
      ->Args({4096, 32'768})
      ->Args({16'384, 131'072})
      ->Unit(benchmark::kMillisecond);
}

void hybrid(benchmark::State& state)
{
  sharded_llama const step(static_cast<std::size_t>(state.range(0)),
                           static_cast<std::size_t>(state.range(1)));
  ballast::sharding_plan plan;
  ballast::workspace memory;
  double worst = 0;
  double worst_plain = 0;
  double worst_tokens = 0;
  for (auto const& lengths : step.steps) {
    (void)hybrid_sharding_into(plan, memory, lengths, step.groups, step.cost, tokens_that_fit);
    auto const plain = ballast_test::plain_greedy_sharding(
        {lengths, step.groups, step.cost, tokens_that_fit}, plan.lower_bound);
    auto const bound = static_cast<double>(plan.lower_bound);
    worst = std::max(worst, plan.gap());
    worst_plain = std::max(worst_plain, static_cast<double>(plain.value_or(0)) / bound - 1);
    worst_tokens = std::max(worst_tokens, static_cast<double>(*std::max_element(
                                              plan.tokens_of.begin(), plan.tokens_of.end())));
  }
  state.counters["worst_gap_%"] = 100 * worst;
  state.counters["worst_plain_greedy_gap_%"] = 100 * worst_plain;
  state.counters["most_tokens"] = worst_tokens;
  std::size_t next = 0;
  for (auto _ : state) {
    (void)hybrid_sharding_into(plan, memory, step.steps[next++ % sharded_steps], step.groups,
                               step.cost, tokens_that_fit);
    benchmark::DoNotOptimize(plan.makespan);
  }
}
BENCHMARK(hybrid)->Name("hybrid_sharding")->Apply(few_gpus_and_many);

// What users have today: one degree for all sequences, in descending order on the least loaded
// group with room. Degrees at which a step does not fit the memory count as failed. A sequence with
// fewer tokens than the degree is split over fewer GPUs.
void one_degree(benchmark::State& state)
{
  sharded_llama const step(1024, 8192);
  auto const degree = static_cast<std::uint32_t>(state.range(0));
  ballast::workspace memory;
  auto const plan = [&](std::vector<tokens> const& lengths, double& above) {
    auto scratch = memory.open();
    auto const problem = ballast::detail::make_shard_problem(lengths, step.groups, step.cost,
                                                             tokens_that_fit, scratch);
    ballast::cost_units const bound = ballast::detail::shard_lower_bound(problem, scratch);
    ballast::detail::shard_state shards(problem, scratch);
    ballast::detail::shard_greedy greedy(problem, scratch);
    auto const fullness = ballast::detail::shard_fullness::of_both(problem, bound);
    bool const is_stranded = greedy.plan_uniform(shards, degree, fullness).has_value();
    ballast::cost_units most = 0;
    for (auto const& use : shards.of_gpu) { most = std::max(most, use.load); }
    above = static_cast<double>(most) / static_cast<double>(bound) - 1;
    return !is_stranded;
  };
  double worst = 0;
  double failed = 0;
  for (auto const& lengths : step.steps) {
    double above = 0;
    if (plan(lengths, above)) {
      worst = std::max(worst, above);
    } else {
      ++failed;
    }
  }
  state.counters["worst_gap_%"] = 100 * worst;
  state.counters["failed"] = failed;
  for (auto _ : state) {
    double above = 0;
    benchmark::DoNotOptimize(plan(step.steps[0], above));
  }
}
BENCHMARK(one_degree)
    ->Name("hybrid_sharding/one_degree")
    ->ArgName("degree")
    ->RangeMultiplier(2)
    ->Range(1, 32)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// The paper's own method: every sequence on one GPU, the longest first, to the one with the fewest
// tokens.
void bucketing(benchmark::State& state)
{
  sharded_llama const step(1024, 8192);
  auto const gpus = ballast::one_gpu_bags(1024);
  auto const alone = step.cost.at({1, 1, 1});
  double worst = 0;
  double most_tokens = 0;
  for (auto const& lengths : step.steps) {
    auto const plan = ballast::partition(lengths, gpus, ballast::quadratic_cost{1}, {},
                                         ballast::longest_processing_time{})
                          .value();
    std::vector<ballast::cost_units> loads(1024, 0);
    for (std::size_t each = 0; each < lengths.size(); ++each) {
      loads[ballast::to_index(plan.owner[each])] += alone(lengths[each]);
    }
    auto const best = hybrid_sharding(lengths, step.groups, step.cost, tokens_that_fit).value();
    worst = std::max(worst, static_cast<double>(*std::max_element(loads.begin(), loads.end())) /
                                    static_cast<double>(best.lower_bound) -
                                1);
    most_tokens = std::max(most_tokens, plan.makespan.value());
  }
  state.counters["worst_gap_%"] = 100 * worst;
  state.counters["most_tokens"] = most_tokens;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ballast::partition(step.steps[0], gpus, ballast::quadratic_cost{1}, {},
                                                ballast::longest_processing_time{}));
  }
}
BENCHMARK(bucketing)->Name("hybrid_sharding/bucketing")->Unit(benchmark::kMillisecond);

// Plain local search from the best uniform degree, on small steps of all families: how often it
// ends below the plan, and by how much at worst.
void beside_plain(benchmark::State& state)
{
  constexpr int small_steps = 400;
  auto const most_samples = static_cast<std::size_t>(state.range(0));
  double planned = 0;
  double worse = 0;
  double better = 0;
  double worst = 0;
  double unplanned = 0;
  for (auto _ : state) {
    ballast::random_source random(most_samples);
    for (int drawn = 0; drawn < small_steps; ++drawn) {
      auto const step = ballast_test::draw_sharding(most_samples, 8, random);
      auto const plain = ballast_test::search_from_best_uniform(step);
      if (!plain) { continue; }
      auto const plan = hybrid_sharding(step.lengths, step.groups, step.cost, step.limit);
      if (!plan) {
        ++unplanned;
        continue;
      }
      ++planned;
      worse += plan->makespan > *plain ? 1 : 0;
      better += plan->makespan < *plain ? 1 : 0;
      if (*plain > 0) {
        worst = std::max(worst, static_cast<double>(plan->makespan) / static_cast<double>(*plain));
      }
    }
  }
  state.counters["steps"] = planned;
  state.counters["unplanned"] = unplanned;
  state.counters["worse_than_plain"] = worse;
  state.counters["better_than_plain"] = better;
  state.counters["worst_ratio"] = worst;
}
BENCHMARK(beside_plain)
    ->Name("hybrid_sharding/plain_search")
    ->ArgName("most_sequences")
    ->Arg(16)
    ->Arg(30)
    ->Arg(60)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// What trainers do with rollouts of the traces that BALLAST_DATA names: 384 sequences on 128 GPUs,
// worst of ten steps. Degree 1 is bucketing, 32 is as far as heads allow, 0 is hybrid_sharding.
void rollouts(benchmark::State& state)
{
  char const* const folder = std::getenv("BALLAST_DATA");
  if (folder == nullptr) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
  auto const machines = ballast::cluster_of(128).value();
  auto const cost = ballast_test::trained_llama(machines);
  ballast::device_groups const groups(machines.nodes, cost.heads);
  auto const degree = static_cast<std::uint32_t>(state.range(1));
  ballast_test::strategy_outcome worst;
  double above = 0;
  for (auto _ : state) {
    auto drawn = ballast_test::rollout_groups(folder, state.range(0) == 1);
    ballast::random_source random(7);
    for (int step = 0; step < 10; ++step) {
      auto const lengths = ballast_test::draw_rollouts(drawn, 384, random);
      auto const ours = hybrid_sharding(lengths, groups, cost).value();
      auto const one = ballast_test::one_degree(lengths, groups, std::max(degree, 1U));
      std::span<ballast::group_id const> const owner =
          degree == 0 ? std::span<ballast::group_id const>(ours.owner) : one;
      auto const out = ballast_test::outcome_of(lengths, owner, groups, cost);
      worst.balance = std::max(worst.balance, out.balance);
      worst.attention = std::max(worst.attention, out.attention);
      worst.exchanged += out.exchanged / 10;
      worst.split += out.split / 10;
      above = std::max(above, out.slowest / static_cast<double>(ours.makespan));
    }
  }
  state.counters["balance"] = worst.balance;
  state.counters["attention"] = worst.attention;
  state.counters["mean_exchanged_%"] = 100 * worst.exchanged;
  state.counters["mean_split_%"] = 100 * worst.split;
  state.counters["step_by_ours"] = above;
}
BENCHMARK(rollouts)
    ->Name("hybrid_sharding/rollouts")
    ->ArgNames({"videos", "degree"})
    ->ArgsProduct({{1, 0}, {1, 8, 32, 0}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
