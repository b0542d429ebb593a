// SPDX-License-Identifier: Apache-2.0
// How time and memory of every planner grow: a row for each planner and family of lengths. The
// row's time is that of the largest size; `exponent` is by which power of the size time grew from a
// size an eighth as large; `MiB` is what the process had at its peak beyond what it had before.

#include "../../examples/common/by_name/parse_order_policy.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../../tests/support/random_modules.hpp"  // defines: ballast_test::draw_model

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/parallelism/cut_chain.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/place_experts.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/plan_schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/split_rows.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>

namespace {

using ballast::tokens;

enum class lengths_of_family : std::uint8_t { equal, two_values, geometric, one_giant };
constexpr std::array family_names = {"equal", "two_values", "geometric", "one_giant"};

std::vector<tokens> grown_lengths(lengths_of_family family, std::size_t count)
{
  ballast::random_source random(17);
  std::vector<tokens> lengths(count, 2048);
  for (std::size_t each = 0; each < count; ++each) {
    switch (family) {
      case lengths_of_family::equal: break;
      case lengths_of_family::two_values: lengths[each] = random.below(3) == 0 ? 3001 : 1000; break;
      case lengths_of_family::geometric: lengths[each] = tokens{8} << random.below(13); break;
      case lengths_of_family::one_giant:
        lengths[each] = each == count / 2 ? 1'000'000 : random.between(100, 1000);
        break;
    }
  }
  return lengths;
}

struct growing_size {
  std::size_t samples;  // or microbatches
  std::size_t gpus;     // or stages of a pipeline
};

// What a planner says of a step: how far it is above its bound at most, or why it refuses.
struct growth_answer {
  double gap = 0;
  std::string refused;
};

using growing_planner = std::function<growth_answer(std::vector<tokens> const&, std::size_t)>;

double cpu_seconds()
{
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// In KiB: what /proc says the process has, or had at most since the peak was forgotten.
std::size_t kept_memory(std::string_view name)
{
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == name) {
      std::size_t kib = 0;
      status >> kib;
      return kib;
    }
  }
  return 0;
}

void forget_peak()
{
  std::ofstream("/proc/self/clear_refs") << 5;
}

void grow(benchmark::State& state, growing_planner const& plan, lengths_of_family family,
          growing_size largest)
{
  auto const smaller = grown_lengths(family, largest.samples / 8);
  double const start = cpu_seconds();
  (void)plan(smaller, std::max<std::size_t>(1, largest.gpus / 8));
  double const before = cpu_seconds() - start;
  auto const lengths = grown_lengths(family, largest.samples);
  growth_answer answer;
  forget_peak();
  std::size_t const had = kept_memory("VmRSS:");
  double seconds = 0;
  for (auto _ : state) {
    double const began = cpu_seconds();
    answer = plan(lengths, largest.gpus);
    seconds = cpu_seconds() - began;
  }
  std::size_t const peak = kept_memory("VmHWM:");
  if (!answer.refused.empty()) { std::fprintf(stderr, "%s\n", answer.refused.c_str()); }
  // Below a thousandth of a second it is the clock that is measured.
  state.counters["exponent"] = before < 0.001 ? 0 : std::log(seconds / before) / std::log(8.0);
  state.counters["MiB"] = static_cast<double>(peak > had ? peak - had : 0) / 1024;
  state.counters["gap"] = answer.gap;
  state.counters["refused"] = answer.refused.empty() ? 0 : 1;
}

template <class Plan>
growth_answer told(Plan const& plan)
{
  if (!plan) { return {0, plan.error().message}; }
  return {plan->gap(), {}};
}

template <class Planner>
void add_growth(std::string const& name, growing_size largest, Planner const& plan)
{
  for (std::size_t family = 0; family < family_names.size(); ++family) {
    benchmark::RegisterBenchmark(("growth/" + name + "/" + family_names[family]).c_str(), grow,
                                 growing_planner(plan), static_cast<lengths_of_family>(family),
                                 largest)
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
}

constexpr growing_size many{1'000'000, 16'384};

void add_partitions()
{
  for (std::string const name :
       {"round_robin", "longest_processing_time", "greedy_knapsack", "karmarkar_karp", "refine",
        "refine:nodes=100000", "least_movement", "capped", "equal_count", "padded_batches",
        "attention_padded_batches", "conv_transformer_batches", "quadratic_with_tolerance"}) {
    for (std::string const bags : {"", "/mixed_bags"}) {
      add_growth(
          "partition/" + name + bags, many,
          [=](std::vector<tokens> const& lengths, std::size_t gpus) {
            auto const layout =
                bags.empty()
                    ? ballast::one_gpu_bags(gpus)
                    : ballast::lay_out(ballast::parse_bags("g1n" + std::to_string(gpus / 2) +
                                                           "+g2n" + std::to_string(gpus / 8) +
                                                           "+g4n" + std::to_string(gpus / 16))
                                           .value(),
                                       gpus)
                          .value();
            ballast::placement_limits limits;
            std::vector<ballast::rank_id> home;
            if (name == "least_movement") {
              for (std::size_t each = 0; each < lengths.size(); ++each) {
                home.push_back(ballast::to_id<ballast::rank_id>(each % gpus));
              }
              limits.home = home;
              limits.then = ballast::fewest_moves;
              limits.within_per_million = 5'000;
            }
            if (name == "equal_count") { limits.samples = ballast::counts::equal(); }
            if (name == "capped") {
              auto const total = std::accumulate(lengths.begin(), lengths.end(), tokens{0});
              limits.most_per_gpu = std::max(*std::max_element(lengths.begin(), lengths.end()),
                                             2 * total / static_cast<tokens>(gpus));
            }
            bool const is_limit =
                name == "least_movement" || name == "capped" || name == "equal_count";
            std::string const policy = name == "least_movement" ? "refine"
                                       : is_limit               ? "lpt"
                                                                : name;
            return told(ballast::partition(lengths, layout, ballast::quadratic_cost{24 * 3072, 4},
                                           limits, by_name::parse_policy(policy).value()));
          });
    }
  }
}

// A thousandth more memory than the samples need together, and none more.
void add_full_memory()
{
  for (std::int64_t const permille : {1, 0}) {
    add_growth(permille == 1 ? "partition/capped/nearly_full" : "partition/capped/full", many,
               [=](std::vector<tokens> const& lengths, std::size_t gpus) {
                 auto const total = std::accumulate(lengths.begin(), lengths.end(), tokens{0});
                 auto const share = total / static_cast<tokens>(gpus) + 1;
                 return told(ballast::partition(
                     lengths, ballast::one_gpu_bags(gpus), ballast::quadratic_cost{24 * 3072, 4},
                     {.most_per_gpu = std::max(*std::ranges::max_element(lengths),
                                               share + share * permille / 1000)},
                     ballast::longest_processing_time{}));
               });
  }
}

void add_grid()
{
  add_growth("partition_grid", many, [=](std::vector<tokens> const& lengths, std::size_t gpus) {
    auto const total = std::accumulate(lengths.begin(), lengths.end(), tokens{0});
    auto const limit =
        std::max(*std::ranges::max_element(lengths), total / static_cast<tokens>(4 * gpus) + 1);
    return told(ballast::partition_grid(lengths, ballast::one_gpu_bags(gpus), {},
                                        ballast::quadratic_cost{24 * 3072, 4},
                                        {.most_per_gpu = limit}));
  });
}

template <class Policy>
void add_vectors(std::string const& name, Policy const& policy)
{
  add_growth("vectors/" + name, many, [=](std::vector<tokens> const& lengths, std::size_t gpus) {
    std::vector<ballast::cost_vector<2>> costs;
    for (std::size_t each = 0; each < lengths.size(); ++each) {
      costs.push_back({lengths[each], lengths[lengths.size() - 1 - each] * 2});
    }
    return told(ballast::partition(costs, ballast::one_gpu_bags(gpus), std::identity{},
                                   ballast::no_length{}, {}, policy));
  });
}

growth_answer pack_by_one_cap(std::vector<tokens> const& lengths)
{
  auto const plan = ballast::pack(
      lengths, {.most_per_gpu = std::max<tokens>(65'536, *std::ranges::max_element(lengths))});
  if (!plan) { return {0, plan.error().message}; }
  return {static_cast<double>(plan->bins()) / static_cast<double>(plan->lower_bound) - 1, {}};
}

growth_answer pack_by_counts(std::vector<tokens> const& lengths)
{
  auto const plan =
      ballast::pack(lengths,
                    {.most_per_gpu = std::max<tokens>(65'536, *std::ranges::max_element(lengths)),
                     .samples = ballast::counts::at_most(512)},
                    ballast::bins{.multiple_of = 8});
  if (!plan) { return {0, plan.error().message}; }
  return {static_cast<double>(plan->largest()) / static_cast<double>(plan->largest_bound) - 1, {}};
}

void add_orders()
{
  for (std::string const name : {"ascending", "interval", "insertion:evaluations=4000",
                                 "search:evaluations=4000", "exact:nodes=1000"}) {
    add_growth(
        "order/" + name, {4096, 64}, [=](std::vector<tokens> const& lengths, std::size_t stages) {
          auto const schedule = ballast::compiled_schedule::make(
                                    ballast::chain_of_stages(stages, stages),
                                    ballast::interleaved_one_forward_one_backward{}, lengths.size())
                                    .value();
          ballast::pipeline_times times(lengths.size(), stages);
          for (std::size_t task = 0; task < times.rows.size(); ++task) {
            tokens const length = lengths[task / stages];
            times.rows[task] = {length, 2 * length};
          }
          return told(ballast::order_microbatches(schedule, times,
                                                  by_name::parse_order_policy(name).value()));
        });
  }
}

growth_answer plan_passes(std::vector<tokens> const& lengths, std::size_t ranks)
{
  ballast::pipeline_times times(lengths.size(), ranks);
  ballast::pipeline_memory memory{{}, std::vector<std::uint64_t>(ranks)};
  for (std::size_t task = 0; task < times.rows.size(); ++task) {
    tokens const length = lengths[task / ranks];
    times.rows[task] = {length, length};
    times.weights.push_back(length);
    auto const held = static_cast<std::uint64_t>(length);
    memory.held.push_back({held, held});
    if (task < lengths.size()) { memory.most[0] += static_cast<std::uint64_t>(lengths[task]); }
  }
  // As many microbatches of the mean length as there are ranks, or the longest one.
  auto const longest = static_cast<std::uint64_t>(*std::ranges::max_element(lengths));
  memory.most.assign(ranks, std::max(longest, memory.most[0] * ranks / lengths.size()));
  std::vector<ballast::pipeline_stage> stages(ranks);
  std::vector<ballast::stage_link> links;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    stages[rank].rank = ballast::to_id<ballast::pipeline_rank>(rank);
    stages[rank].weights = true;
    if (rank == 0) { continue; }
    links.push_back(
        {ballast::to_id<ballast::stage_id>(rank - 1), ballast::to_id<ballast::stage_id>(rank)});
  }
  return told(
      ballast::plan_schedule(ballast::stage_graph::make(stages, links).value(), times, memory));
}

growth_answer shard(std::vector<tokens> const& lengths, std::size_t gpus)
{
  auto const machines = ballast::cluster_of(gpus).value();
  auto const cost =
      ballast::sharding_cost_of(ballast::find_known_model("llama3-8b").value().shape,
                                {.seconds_per_flop = 1 / 400e12, .gamma = 1}, machines)
          .value();
  return told(ballast::hybrid_sharding(lengths, ballast::device_groups(machines.nodes, 32), cost));
}

growth_answer tile_slots(std::vector<tokens> const& lengths, std::size_t gpus)
{
  auto const machines = ballast::cluster_of(gpus).value();
  auto const cost =
      ballast::sharding_cost_of(ballast::find_known_model("llama3-8b").value().shape,
                                {.seconds_per_flop = 1 / 400e12, .gamma = 1}, machines)
          .value();
  auto const plan = ballast::plan_slots(lengths, machines.nodes, cost,
                                        {.largest = 64, .most_per_gpu = 8192, .is_soft = true});
  if (!plan) { return {0, plan.error().message}; }
  return {plan->gap(), {}};
}

growth_answer split_pack(std::vector<tokens> const& lengths, std::size_t ranks)
{
  std::vector<ballast::row_mask> const masks = {{}, {.window = 1024}};
  auto const split = ballast::split_rows(lengths, ranks, masks);
  if (!split) { return {0, split.error().message}; }
  return {split->for_mask[0].gap(), {}};
}

growth_answer place_nodes(std::vector<tokens> const& lengths, std::size_t gpus)
{
  auto const bags = ballast::one_gpu_bags(gpus);
  std::vector<ballast::rank_id> home;
  for (std::size_t each = 0; each < lengths.size(); ++each) {
    home.push_back(ballast::to_id<ballast::rank_id>(each % gpus));
  }
  auto plan =
      ballast::partition(lengths, bags, std::identity{}, {}, ballast::longest_processing_time{})
          .value();
  auto const placed = ballast::place_by_node(plan, ballast::place(lengths, home, gpus), bags,
                                             ballast::cluster_of(gpus).value());
  if (!placed) { return {0, placed.error().message}; }
  return {};
}

growth_answer choose_mix(std::vector<tokens> const& lengths, std::size_t gpus)
{
  std::vector<ballast::sample_batch> batches(1);
  batches[0].lengths = lengths;
  auto const chosen = ballast::choose_bags(batches, ballast::cluster_of(gpus).value(), {},
                                           ballast::quadratic_cost{24 * 3072, 4});
  if (!chosen) { return {0, chosen.error().message}; }
  return {};
}

growth_answer cut_layers(std::vector<tokens> const& lengths, std::size_t ranks)
{
  std::vector<ballast::chain_layer> layers;
  for (tokens const length : lengths) { layers.push_back({.cost = length}); }
  return told(ballast::cut_chain(layers, {.ranks = ranks}));
}

growth_answer place_replicas(std::vector<tokens> const& lengths, std::size_t gpus)
{
  std::vector<std::uint32_t> const slots(gpus, 3);
  return told(ballast::place_experts(lengths, slots));
}

// A drawn encoder and LLM, and a batch of these lengths: an item of the encoder for 1,024 tokens.
growth_answer search_layouts_of(std::vector<tokens> const& lengths, std::size_t gpus, bool all)
{
  constexpr std::uint64_t memory = std::uint64_t{80} << 30;  // of a GPU
  ballast::random_source random(2048);
  auto const model = ballast_test::draw_model(random, 2, 256, true, memory);
  std::vector<tokens> batch;
  for (tokens const length : lengths) {
    tokens const cut = std::min<tokens>(length, 16'384);
    batch.insert(batch.end(), {cut / 1024, cut});
  }
  ballast::layout_problem problem;
  problem.modules = model.modules;
  problem.sizes = std::span(batch).first(std::min<std::size_t>(batch.size(), 512));
  problem.global_batch = static_cast<std::uint32_t>(lengths.size());
  problem.kinds[0].gpus = static_cast<std::uint32_t>(gpus);
  problem.kinds[0].memory_bytes = memory;
  return told(
      ballast::search_layouts(problem, batch, {.most_work = std::uint64_t{1} << (all ? 36 : 27)}));
}

bool const added_growth = [] {
  add_partitions();
  add_full_memory();
  add_grid();
  add_vectors("longest_processing_time", ballast::longest_processing_time{});
  add_vectors("refine", ballast::refine<>{});
  add_growth("packing/one_cap", {1'000'000, 1},
             [](auto const& lengths, std::size_t) { return pack_by_one_cap(lengths); });
  add_growth("packing/counts", {65'536, 1},
             [](auto const& lengths, std::size_t) { return pack_by_counts(lengths); });
  add_growth("hybrid_sharding", many, shard);
  add_growth("plan_slots", {65'536, 4096}, tile_slots);
  add_growth("schedule/planned", {4096, 64}, plan_passes);
  add_growth("split_rows", {4096, 64}, split_pack);
  add_orders();
  add_growth("place_by_node", many, place_nodes);
  add_growth("choose_bags", many, choose_mix);
  add_growth("cut_chain", {4096, 64}, cut_layers);
  add_growth("place_experts", {2048, 2048}, place_replicas);
  for (bool const all : {false, true}) {
    add_growth(all ? "search_layouts/proof" : "search_layouts/2_27_steps", {4096, 1024},
               [all](std::vector<tokens> const& lengths, std::size_t gpus) {
                 return search_layouts_of(lengths, gpus, all);
               });
  }
  return true;
}();

}  // namespace
