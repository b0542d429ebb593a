#include "../../tests/support/movement_lower_bound.hpp"  // defines: ballast_test::movement_lower_bound
#include "../common/plain_search.hpp"                    // defines: bench::compared_plans
#include "../common/workloads.hpp"                       // defines: bench::transformer_cost, ...

#include <benchmark/benchmark.h>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::longest_processing_time;

/// Fewest moves within a tolerance of the plan of a policy.
template <class Inner = ballast::refine<>>
struct least_movement {
  Inner inner{};
  std::uint32_t tolerance_per_million = 5'000;

  [[nodiscard]] cost_units limit(ballast::ratio makespan, std::uint32_t speed) const
  {
    return ballast::detail::work_within(makespan, tolerance_per_million, speed);
  }
};

/// Plans by a policy, or by fewest moves around one.
template <class Policy, class Samples, class Cost>
bool plan_into(ballast::partition_plan& plan, ballast::workspace& memory, Samples const& samples,
               ballast::bag_layout const& bags, Cost const& cost, ballast::placement_limits limits,
               Policy const& policy)
{
  if constexpr (ballast::partition_policy<Policy>) {
    return ballast::partition_into(plan, memory, samples, bags, cost, limits, policy).has_value();
  } else {
    limits.then = ballast::fewest_moves;
    limits.within_per_million = policy.tolerance_per_million;
    return ballast::partition_into(plan, memory, samples, bags, cost, limits, policy.inner)
        .has_value();
  }
}

/// Training steps whose samples lie on the GPUs that have read them.
struct read_steps {
  ballast::bag_layout bags;
  std::vector<ballast::sample_batch> steps;

  read_steps(std::string_view codes, std::size_t gpus, std::string_view spec)
      : bags(*ballast::lay_out(*ballast::parse_bags(spec), gpus))
  {
    auto const parsed = ballast::parse_data_codes(codes).value();
    ballast::random_source random(1);
    for (int step = 0; step < 20; ++step) {
      steps.push_back(ballast::draw_batch(parsed, gpus, {}, random).value());
    }
  }
};

/// The share of all tokens that every plan within the policy's limits moves at least.
template <class Policy>
double least_share(ballast::sample_batch const& step, ballast::bag_layout const& bags,
                   Policy const& policy, ballast::workspace& memory)
{
  auto const best =
      ballast::partition(step.lengths, bags, bench::transformer_cost(), {}, policy.inner).value();
  std::vector<ballast::bag_id> home;
  for (ballast::rank_id const rank : step.source) { home.push_back(bags.bag_of(rank)); }
  std::vector<ballast::priced_sample> order(best.costs.size());
  ballast::descending_order_into(order, best.costs, memory);
  std::vector<cost_units> const idle(bags.size(), 0);
  std::vector<cost_units> limits;
  for (std::uint32_t const speed : bags.speeds()) {
    limits.push_back(policy.limit(best.makespan, speed));
  }
  ballast::partition_problem const problem{best.costs,   step.lengths,  order,
                                           bags.sizes(), bags.speeds(), home};
  double all = 0;
  for (ballast::tokens const length : step.lengths) { all += static_cast<double>(length); }
  return static_cast<double>(ballast_test::movement_lower_bound(problem, idle, limits, memory)) /
         all;
}

/// The front door in the steady state, step after step. Quality is the mean over the steps.
template <class Policy>
void plan(benchmark::State& state, Policy policy, std::string_view codes, std::size_t gpus,
          std::string_view spec)
{
  read_steps const read(codes, gpus, spec);
  auto const cost = bench::transformer_cost();
  ballast::partition_plan result;
  ballast::workspace memory;
  auto const plan_step = [&](ballast::sample_batch const& step) {
    return plan_into(result, memory, step.lengths, read.bags, cost, {.home = step.source}, policy);
  };
  std::size_t next = 0;
  for (auto _ : state) {
    bool const done = plan_step(read.steps[next++ % read.steps.size()]);
    benchmark::DoNotOptimize(done);
    benchmark::ClobberMemory();
  }

  double moved = 0;
  double least = 0;
  double gap = 0;
  for (ballast::sample_batch const& step : read.steps) {
    if (!plan_step(step)) { return state.SkipWithError("a step has no plan"); }
    moved += result.moved.value();
    gap += result.gap();
    if constexpr (requires { policy.tolerance_per_million; }) {
      least += least_share(step, read.bags, policy, memory);
    }
  }
  auto const steps = static_cast<double>(read.steps.size());
  state.counters["moved_percent"] = 100 * moved / steps;
  state.counters["least_percent"] = 100 * least / steps;  // 0: no limit asked for
  state.counters["gap_percent"] = 100 * gap / steps;
}

/// The same with the answers to a prompt, which stay together and lie on ranks far apart.
template <class Policy>
void plan_answers(benchmark::State& state, Policy policy, std::string_view codes, std::size_t gpus,
                  std::size_t answers)
{
  read_steps const read(codes, gpus, "g1n1");
  auto const cost = bench::transformer_cost();
  std::vector<std::vector<std::int64_t>> prompts;
  for (ballast::sample_batch const& step : read.steps) {
    auto& prompt = prompts.emplace_back();
    for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
      prompt.push_back(static_cast<std::int64_t>(sample % (step.lengths.size() / answers)));
    }
  }
  ballast::partition_plan result;
  ballast::workspace memory;
  auto const plan_step = [&](std::size_t step) {
    ballast::sample_batch const& batch = read.steps[step];
    return plan_into(result, memory, batch.lengths, read.bags, cost,
                     {.together = prompts[step], .home = batch.source}, policy);
  };
  std::size_t next = 0;
  for (auto _ : state) {
    bool const done = plan_step(next++ % read.steps.size());
    benchmark::DoNotOptimize(done);
    benchmark::ClobberMemory();
  }
  double moved = 0;
  double gap = 0;
  for (std::size_t step = 0; step < read.steps.size(); ++step) {
    if (!plan_step(step)) { return state.SkipWithError("a step has no plan"); }
    moved += result.moved.value();
    gap += result.gap();
  }
  auto const steps = static_cast<double>(read.steps.size());
  state.counters["moved_percent"] = 100 * moved / steps;
  state.counters["gap_percent"] = 100 * gap / steps;
}

// The fewest tokens that a plan within the limits moves, by depth-first search over all plans.
class fewest_moved {
 public:
  fewest_moved(std::vector<cost_units> const& costs, std::vector<ballast::tokens> const& lengths,
               std::vector<std::size_t> const& home, std::vector<cost_units> limits)
      : costs_(costs), lengths_(lengths), home_(home), room_(std::move(limits)), order_(home.size())
  {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::sort(order_, [&](std::size_t a, std::size_t b) {
      return costs[a] != costs[b] ? costs[a] > costs[b] : a < b;
    });
  }

  // `known`: what some plan moves.
  ballast::tokens operator()(ballast::tokens known)
  {
    best_ = known;
    place(0, 0);
    return best_;
  }

 private:
  void place(std::size_t depth, ballast::tokens moved)
  {
    if (moved >= best_) { return; }
    if (depth == order_.size()) {
      best_ = moved;
      return;
    }
    std::size_t const sample = order_[depth];
    for (std::size_t step = 0; step < room_.size(); ++step) {
      std::size_t const bag = (home_[sample] + step) % room_.size();
      if (room_[bag] < costs_[sample]) { continue; }
      room_[bag] -= costs_[sample];
      place(depth + 1, moved + (step == 0 ? 0 : lengths_[sample]));
      room_[bag] += costs_[sample];
    }
  }

  std::vector<cost_units> const& costs_;
  std::vector<ballast::tokens> const& lengths_;
  std::vector<std::size_t> const& home_;
  std::vector<cost_units> room_;
  std::vector<std::size_t> order_;
  ballast::tokens best_ = 0;
};

// Drawn steps of 8 to 16 samples on 3 or 4 bags beside the fewest tokens that any plan moves.
void movement_beside_all_plans(benchmark::State& state, bool cost_follows_length, bool speeds)
{
  ballast::workspace memory;
  bench::compared_plans all_plans;
  double ours = 0;
  double fewest = 0;
  for (auto _ : state) {
    ballast::random_source random(bench::seed_of(state, 47));
    ours = fewest = 0;
    for (int trial = 0; trial < 60; ++trial) {
      std::size_t const count = 3 + random.below(2);
      std::vector<std::size_t> samples(8 + random.below(count == 3 ? 9 : 7));
      std::iota(samples.begin(), samples.end(), std::size_t{0});
      auto const lengths = bench::lognormal_lengths(samples.size(), 1.0, random());
      auto const others = bench::lognormal_lengths(samples.size(), 1.0, random());
      std::vector<std::uint32_t> gpu_speeds(count, 1);
      std::vector<std::size_t> home(samples.size());
      std::vector<ballast::rank_id> ranks;
      for (std::uint32_t& speed : gpu_speeds) {
        if (speeds) { speed = static_cast<std::uint32_t>(random.between(40, 100)); }
      }
      for (std::size_t& bag : home) {
        bag = random.below(count);
        ranks.push_back(ballast::to_id<ballast::rank_id>(bag));
      }
      auto const bags = ballast::one_gpu_bags(count).with_speeds(gpu_speeds);
      auto const cost = [&](std::size_t sample) {
        ballast::tokens const length = lengths[sample];
        return cost_follows_length ? length * (length + 50) : others[sample];
      };
      auto const length = [&](std::size_t sample) { return lengths[sample]; };
      least_movement<> const policy{};
      auto const best = ballast::partition(samples, bags, cost, length, {}, policy.inner).value();
      auto const plan = ballast::partition(samples, bags, cost, length,
                                           {.home = ranks,
                                            .then = ballast::fewest_moves,
                                            .within_per_million = policy.tolerance_per_million})
                            .value();
      std::vector<cost_units> limits;
      for (std::uint32_t const speed : bags.speeds()) {
        limits.push_back(policy.limit(best.makespan, speed));
      }
      ballast::tokens const least =
          fewest_moved(plan.costs, lengths, home, limits)(plan.moved.numerator);
      all_plans.add(static_cast<double>(plan.moved.numerator), static_cast<double>(least));
      ours += static_cast<double>(plan.moved.numerator);
      fewest += static_cast<double>(least);
    }
  }
  all_plans.count(state, "fewest");
  state.counters["all_above_fewest_percent"] = 100 * (ours / fewest - 1);
}
BENCHMARK_CAPTURE(movement_beside_all_plans, one_speed, true, false)->Iterations(1);
BENCHMARK_CAPTURE(movement_beside_all_plans, speeds, true, true)->Iterations(1);
BENCHMARK_CAPTURE(movement_beside_all_plans, costs_apart, false, false)->Iterations(1);
BENCHMARK_CAPTURE(movement_beside_all_plans, costs_apart_speeds, false, true)->Iterations(1);

constexpr std::string_view even = "g32b32i256f1s0";
constexpr std::string_view two_sizes = "g8b4i256f1s0,g4b5i512f1s0";
constexpr std::string_view four_sizes = "g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0";

// The first two rows are what a user has today.
void add_rows(std::string_view codes, std::size_t gpus, std::string_view bags)
{
  auto const add = [&](std::string const& name, auto const& policy) {
    std::string row = std::string("least_movement/").append(name).append("/").append(codes);
    row.append("/").append(bags).append("/gpus:").append(std::to_string(gpus));
    benchmark::RegisterBenchmark(row.c_str(), [=](benchmark::State& state) {
      plan(state, policy, codes, gpus, bags);
    })->Unit(benchmark::kMicrosecond);
  };
  add("greedy_knapsack", ballast::greedy_knapsack{});
  add("longest_processing_time", longest_processing_time{});
  for (std::uint32_t const tolerance : {0U, 1'000U, 5'000U, 20'000U}) {
    add(std::string("longest_processing_time/tolerance_per_million:")
            .append(std::to_string(tolerance)),
        least_movement<longest_processing_time>{{}, tolerance});
  }
  add("refine/tolerance_per_million:5000", least_movement<>{});
}

void add_answer_rows(std::string_view codes, std::size_t gpus, std::size_t answers)
{
  auto const add = [&](std::string const& name, auto const& policy) {
    std::string row = std::string("least_movement/").append(name).append("/").append(codes);
    row.append("/answers:").append(std::to_string(answers));
    row.append("/gpus:").append(std::to_string(gpus));
    benchmark::RegisterBenchmark(row.c_str(), [=](benchmark::State& state) {
      plan_answers(state, policy, codes, gpus, answers);
    })->Unit(benchmark::kMicrosecond);
  };
  add("greedy_knapsack", ballast::greedy_knapsack{});
  add("longest_processing_time/tolerance_per_million:5000",
      least_movement<longest_processing_time>{});
  add("refine/tolerance_per_million:5000", least_movement<>{});
}

[[maybe_unused]] bool const movement_registered = [] {
  add_rows(even, 32, "g1n1");
  add_rows(even, 1024, "g1n1");
  add_rows(two_sizes, 24, "g1n1");
  add_rows(two_sizes, 24, "g8n1");
  add_rows(four_sizes, 32, "g1n1");
  add_rows(four_sizes, 256, "g8n1");
  add_answer_rows(even, 32, 4);
  add_answer_rows(two_sizes, 24, 4);
  return true;
}();

}  // namespace
