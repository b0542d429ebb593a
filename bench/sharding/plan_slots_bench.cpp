// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/sharding/plan_slots.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/slots_plan.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/length_trace.hpp>

#include <cstdlib>
#include <queue>

namespace plan_slots_bench {

using ballast::cost_units;
using ballast::tokens;

constexpr std::uint32_t ranks = 1024;
constexpr std::uint32_t largest = 64;

// A model of width 4096 with 64 heads and 8 of keys, at 400 TFLOP/s on nodes of eight with 450 and
// 50 GB/s.
struct slot_step {
  std::vector<tokens> lengths;  // longest first
  tokens cap = 0;
  std::vector<ballast::degree_cost> costs;  // of groups of 1, 2, 3 ... ranks

  slot_step(std::vector<tokens> drawn, tokens most) : lengths(std::move(drawn)), cap(most)
  {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    for (std::uint32_t gpus = 1; gpus <= largest; ++gpus) {
      auto const shape = shape_of({ballast::rank_id(0), gpus}, nodes());
      costs.push_back(model().at(shape));
    }
  }

  static ballast::node_sizes nodes() { return ballast::node_sizes::equal(ranks / 8, 8); }

  static ballast::sharding_cost model()
  {
    auto shape = ballast::classic_transformer(4096, 32, 64);
    shape.kv_heads = 8;
    ballast::gamma_fit const fit{.seconds_per_flop = 1 / 400e12, .gamma = 1};
    return ballast::sharding_cost_of(shape, fit, ballast::cluster_of(ranks).value()).value();
  }

  [[nodiscard]] cost_units time(std::size_t sample, std::uint32_t gpus) const
  {
    return costs[gpus - 1](lengths[sample]);
  }
  [[nodiscard]] tokens share(std::size_t sample, std::uint32_t gpus) const
  {
    return (lengths[sample] + gpus - 1) / gpus;
  }
};

struct tile {
  std::uint32_t gpus = 1;
  cost_units load = 0;
  tokens held = 0;
  std::vector<std::size_t> samples = {};
};

// A target by bisection: longest first, each on the smallest group that computes it in time, in the
// first slot with so many ranks left; one that a rank computes in time goes to an empty rank, or else
// to the least loaded one with room. Returns the sum of the longest groups.
std::optional<cost_units> greedy_within(slot_step const& step, std::size_t slots, cost_units target)
{
  std::vector<std::uint32_t> left(slots, ranks);
  std::vector<cost_units> longest(slots);
  struct single {
    cost_units load;
    tokens held;
    std::size_t slot;
    bool operator<(single const& other) const { return load > other.load; }
  };
  std::priority_queue<single> singles;
  for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
    std::uint32_t gpus = 1;
    while (gpus <= largest &&
           (step.share(sample, gpus) > step.cap || step.time(sample, gpus) > target)) {
      ++gpus;
    }
    if (gpus > largest) { return std::nullopt; }
    cost_units const time = step.time(sample, gpus);
    std::size_t slot = 0;
    while (slot < slots && left[slot] < gpus) { ++slot; }
    if (slot < slots) {
      left[slot] -= gpus;
      longest[slot] = std::max(longest[slot], time);
      if (gpus == 1) { singles.push({time, step.lengths[sample], slot}); }
      continue;
    }
    if (gpus > 1) { return std::nullopt; }
    std::vector<single> full;
    bool is_placed = false;
    while (!is_placed && !singles.empty() && full.size() < 32) {
      single least = singles.top();
      singles.pop();
      is_placed = least.load + time <= target && least.held + step.lengths[sample] <= step.cap;
      if (!is_placed) {
        full.push_back(least);
        continue;
      }
      least.load += time;
      least.held += step.lengths[sample];
      longest[least.slot] = std::max(longest[least.slot], least.load);
      singles.push(least);
    }
    if (!is_placed) { return std::nullopt; }
    for (single const& each : full) { singles.push(each); }
  }
  return std::accumulate(longest.begin(), longest.end(), cost_units{0});
}

cost_units plain_greedy(slot_step const& step, std::size_t fewest, cost_units bound)
{
  cost_units best = ballast::no_cost;
  for (std::size_t slots = fewest; slots < fewest + 4; ++slots) {
    cost_units low = bound / static_cast<cost_units>(slots) / 2;
    cost_units high = 3 * bound;
    for (int halving = 0; halving < 20; ++halving) {
      cost_units const target = low + (high - low) / 2;
      auto const found = greedy_within(step, slots, target);
      if (found) { best = std::min(best, *found); }
      (found ? high : low) = target;
    }
  }
  return best;
}

// The rule of a trainer (Megatron-LM's, in outline): slot after slot, longest first, each on its
// tokens over what a rank holds, rounded up to a power of two; where its work is below 0.95 of the
// longest's it joins the least loaded group of that size while that stays below 1.05. Ranks that are
// left double the groups, the longest first.
cost_units trainers_rule(slot_step const& step)
{
  std::vector<std::size_t> rest(step.lengths.size());
  std::iota(rest.begin(), rest.end(), std::size_t{0});
  cost_units sum = 0;
  while (!rest.empty()) {
    std::vector<tile> tiles;
    std::vector<std::size_t> later;
    std::uint32_t left = ranks;
    cost_units target = 0;
    for (std::size_t const sample : rest) {
      std::uint32_t gpus = 1;
      while (step.share(sample, gpus) > step.cap) { gpus *= 2; }
      cost_units const time = step.time(sample, gpus);
      if (tiles.empty()) { target = time; }
      tile* least = nullptr;
      for (tile& each : tiles) {
        bool const is_open = left >= gpus ? each.gpus == gpus : each.gpus >= gpus;
        if (is_open && each.load + step.time(sample, each.gpus) <= target / 20 * 21 &&
            each.held + step.share(sample, each.gpus) <= step.cap &&
            (least == nullptr || each.load < least->load)) {
          least = &each;
        }
      }
      if (left >= gpus && (least == nullptr || time >= target / 20 * 19)) {
        left -= gpus;
        tiles.push_back({gpus});
        least = &tiles.back();
      }
      if (least == nullptr) {
        later.push_back(sample);
        continue;
      }
      least->load += step.time(sample, least->gpus);
      least->held += step.share(sample, least->gpus);
      least->samples.push_back(sample);
    }
    for (bool has_grown = true; has_grown;) {
      tile* longest = nullptr;
      for (tile& each : tiles) {
        bool const may_grow = each.gpus <= left && 2 * each.gpus <= largest;
        if (may_grow && (longest == nullptr || each.load > longest->load)) { longest = &each; }
      }
      has_grown = longest != nullptr;
      if (!has_grown) { break; }
      left -= longest->gpus;
      longest->gpus *= 2;
      longest->load = 0;
      for (std::size_t const sample : longest->samples) {
        longest->load += step.time(sample, longest->gpus);
      }
    }
    cost_units longest = 0;
    for (tile const& each : tiles) { longest = std::max(longest, each.load); }
    sum += longest;
    rest = later;
  }
  return sum;
}

// 4,096 samples of a trace of the folder that BALLAST_DATA names, three steps.
void slots(benchmark::State& state, std::string const& file, std::string const& column)
{
  char const* const folder = std::getenv("BALLAST_DATA");
  if (folder == nullptr) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
  auto trace =
      ballast::read_file(std::string(folder) + "/" + file, ballast::read_length_trace, column);
  if (!trace) { return state.SkipWithError(trace.error().message.c_str()); }
  ballast::random_source random(5);
  std::vector<slot_step> steps;
  for (int step = 0; step < 3; ++step) {
    random.shuffle(std::span(*trace));
    std::vector<tokens> lengths(trace->begin(), trace->begin() + 4096);
    steps.emplace_back(std::move(lengths), tokens{state.range(0)});
  }
  ballast::slot_groups const rules{
      .powers_of_two = state.range(1) == 1, .largest = largest, .most_per_gpu = state.range(0)};
  ballast::slots_plan plan;
  ballast::workspace memory;
  auto const plan_step = [&](slot_step const& step) {
    or_throw(
        plan_slots_into(plan, memory, step.lengths, slot_step::nodes(), slot_step::model(), rules));
  };
  double gap = 0;
  double plain = 0;
  double trainers = 0;
  double slots_used = 0;
  for (slot_step const& step : steps) {
    plan_step(step);
    auto const bound = static_cast<double>(plan.lower_bound);
    gap += 100 * plan.gap() / 3;
    slots_used += static_cast<double>(plan.slots) / 3;
    plain +=
        100 *
        (static_cast<double>(plain_greedy(step, plan.fewest_slots, plan.lower_bound)) / bound - 1) /
        3;
    trainers += 100 * (static_cast<double>(trainers_rule(step)) / bound - 1) / 3;
  }
  state.counters["gap_%"] = gap;
  state.counters["plain_greedy_gap_%"] = plain;
  state.counters["trainers_rule_gap_%"] = trainers;
  state.counters["slots"] = slots_used;
  std::size_t next = 0;
  for (auto _ : state) {
    plan_step(steps[next++ % steps.size()]);
    benchmark::DoNotOptimize(plan.makespan);
  }
}

void caps(benchmark::internal::Benchmark* row)
{
  row->ArgNames({"cap", "powers_of_two"})->ArgsProduct({{8192, 32'768}, {0, 1}});
  row->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(slots, servegen, "servegen_reason_sampled.csv", "prompt_tokens+response_tokens")
    ->Name("plan_slots/servegen")
    ->Apply(caps);
BENCHMARK_CAPTURE(slots, nextqa, "nextqa_video.csv", "text_tokens+video_tokens_qwen2vl")
    ->Name("plan_slots/nextqa")
    ->Apply(caps);
BENCHMARK_CAPTURE(slots, mooncake, "mooncake_conversation.csv", "prompt_tokens+response_tokens")
    ->Name("plan_slots/mooncake")
    ->Apply(caps);
BENCHMARK_CAPTURE(slots, documents, "interleaved_docs.csv", "text_tokens")
    ->Name("plan_slots/documents")
    ->Apply(caps);

}  // namespace plan_slots_bench
