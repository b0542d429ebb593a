#include "../common/plain_search.hpp"  // defines: bench::seed_of
#include "../common/workloads.hpp"     // defines: bench::lognormal_lengths, bench::median_seconds

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>

#include <functional>
#include <queue>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;
using namespace ballast::literals;

// Lengths end at a context of 16,384 tokens; without an end, one sample often outweighs the mean
// load of all bags, its bag is the bound, and any policy is optimal. Costs are 24 l d^2 + 4 l^2 d
// at d = 3072, in FLOP, or in units that make the mean load of a bag 10^7.
std::vector<cost_units> step_costs(std::size_t samples, std::size_t bags, double sigma,
                                   bool in_flop, std::uint64_t seed)
{
  std::vector<cost_units> costs;
  double total = 0;
  for (ballast::tokens length : bench::lognormal_lengths(samples, sigma, seed)) {
    length = std::min<ballast::tokens>(length, 16'384);
    costs.push_back(24 * 3072 * 3072 * length + 4 * 3072 * length * length);
    total += static_cast<double>(costs.back());
  }
  double const unit = in_flop ? 1 : total / (1e7 * static_cast<double>(bags));
  for (cost_units& cost : costs) {
    cost = static_cast<cost_units>(static_cast<double>(cost) / unit);
  }
  return costs;
}

// Baseline: what a user writes, a comparison sort and a priority queue of bags.
void sort_and_heap(std::span<cost_units const> costs, std::size_t bags, std::vector<bag_id>& owner)
{
  std::vector<std::pair<cost_units, std::size_t>> order;
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    order.emplace_back(-costs[sample], sample);
  }
  std::sort(order.begin(), order.end());
  using loaded = std::pair<cost_units, std::size_t>;
  std::priority_queue<loaded, std::vector<loaded>, std::greater<>> lightest;
  for (std::size_t bag = 0; bag < bags; ++bag) { lightest.emplace(0, bag); }
  owner.resize(costs.size());
  for (auto const& [negative_cost, sample] : order) {
    auto [load, bag] = lightest.top();
    lightest.pop();
    owner[sample] = ballast::to_id<bag_id>(bag);
    lightest.emplace(load - negative_cost, bag);
  }
}

// A step as the front door gives it to a policy, sorted anew each time.
template <class Policy>
struct planner {
  planner(std::vector<cost_units> all_costs, std::size_t bags, Policy chosen)
      : costs(std::move(all_costs)),
        lengths(costs.size(), 1),
        order(costs.size()),
        gpus(bags, 1),
        loads(bags),
        owner(costs.size()),
        policy(chosen)
  {}

  void operator()()
  {
    ballast::descending_order_into(order, costs, memory);
    std::ranges::fill(loads, 0);
    std::ranges::fill(owner, ballast::to_id<bag_id>(gpus.size()));
    bound = run_policy(policy, {costs, lengths, order, gpus, gpus}, loads, owner, memory);
    benchmark::DoNotOptimize(owner.data());
  }
  [[nodiscard]] ratio makespan() const { return {std::ranges::max(loads), 1}; }

  std::vector<cost_units> costs;
  std::vector<ballast::tokens> lengths;
  std::vector<ballast::priced_sample> order;
  std::vector<std::uint32_t> gpus;
  std::vector<cost_units> loads;
  std::vector<bag_id> owner;
  ballast::workspace memory;
  ratio bound;
  Policy policy;
};

// Twenty steps, each planned from unsorted costs: sort, LPT, bound and exchanges, next to the
// baseline in the same run. `median_ms` and `baseline_ms` are medians over steps.
void refine_steps(benchmark::State& state)
{
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const bags = static_cast<std::size_t>(state.range(1));
  int const steps = samples > 100'000 ? 3 : 20;
  int proven = 0;
  double worst_gap = 0;
  double worst_greedy_gap = 0;
  std::vector<double> ours;
  std::vector<double> baseline;
  for (auto _ : state) {
    proven = 0;
    ours.clear();
    baseline.clear();
    for (int step = 0; step < steps; ++step) {
      auto const costs =
          step_costs(samples, bags, static_cast<double>(state.range(2)) / 10, state.range(3) != 0,
                     /*seed=*/100 + static_cast<std::uint64_t>(step));
      planner greedy(costs, bags, ballast::longest_processing_time{});
      greedy();
      planner refined(costs, bags, ballast::refine{});
      refined();
      ours.push_back(bench::median_seconds(3, [&refined] { refined(); }));
      std::vector<bag_id> owner;
      baseline.push_back(bench::median_seconds(3, [&] { sort_and_heap(costs, bags, owner); }));
      proven += refined.makespan() == refined.bound ? 1 : 0;
      double const bound = refined.bound.value();
      worst_gap = std::max(worst_gap, refined.makespan().value() / bound - 1);
      worst_greedy_gap = std::max(worst_greedy_gap, greedy.makespan().value() / bound - 1);
    }
  }
  auto const median = [](std::vector<double>& seconds) {
    std::ranges::nth_element(seconds, seconds.begin() + std::ssize(seconds) / 2);
    return seconds[seconds.size() / 2];
  };
  double const our_seconds = median(ours);
  double const baseline_seconds = median(baseline);
  state.counters["proven"] = proven;
  state.counters["steps"] = steps;
  state.counters["gap"] = worst_gap;
  state.counters["lpt_gap"] = worst_greedy_gap;
  state.counters["median_ms"] = our_seconds * 1e3;
  state.counters["baseline_ms"] = baseline_seconds * 1e3;
  state.counters["times_faster"] = baseline_seconds / our_seconds;
}

BENCHMARK(refine_steps)
    ->ArgNames({"samples", "bags", "sigma_tenths", "in_flop"})
    ->ArgsProduct({{2048}, {64}, {10, 15}, {0, 1}})
    ->ArgsProduct({{65'536}, {1024}, {10, 15}, {0, 1}})
    ->ArgsProduct({{1'000'000}, {16'384}, {10}, {0, 1}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// Costs of nine digits, as the README's literal gives them, or in coarser units.
void refine_literal(benchmark::State& state)
{
  constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
  std::uint64_t const first_length_seed = bench::seed_of(state, 4711);
  std::vector<double> seconds;
  int proven = 0;
  for (auto _ : state) {
    for (std::uint64_t step = 0; step < 20; ++step) {
      std::vector<cost_units> costs;
      for (ballast::tokens const length :
           bench::lognormal_lengths(2048, 1.0, first_length_seed + step)) {
        cost_units const fine = cost(std::min<ballast::tokens>(length, 16'384));
        costs.push_back(std::max<cost_units>(fine / state.range(0), 1));
      }
      planner refined(costs, 64, ballast::refine{});
      refined();
      seconds.push_back(bench::median_seconds(3, [&refined] { refined(); }));
      proven += refined.makespan() == refined.bound ? 1 : 0;
    }
  }
  std::ranges::nth_element(seconds, seconds.begin() + std::ssize(seconds) / 2);
  state.counters["proven_of_20"] = proven;
  state.counters["median_ms"] = 1e3 * seconds[seconds.size() / 2];
}

BENCHMARK(refine_literal)->ArgName("unit")->Args({1})->Args({1'000})->Iterations(1);

// One exchange of k candidates of each of two bags, at least `net` units: 4^k at once.
void one_exchange(benchmark::State& state)
{
  auto const candidates = static_cast<std::size_t>(state.range(0));
  ballast::random_source random(7);
  std::vector<std::vector<cost_units>> bags(512, std::vector<cost_units>(candidates));
  for (auto& bag : bags) {
    for (cost_units& cost : bag) { cost = random.between(1000, 150'000); }
    std::ranges::sort(bag);
  }
  ballast::workspace memory;
  constexpr auto all_work = std::numeric_limits<std::uint64_t>::max();
  ballast::detail::work_budget work(all_work);
  std::size_t pair = 0;
  std::size_t found = 0;
  for (auto _ : state) {
    auto const& giving = bags[pair % bags.size()];
    auto const& taking = bags[(pair + 1) % bags.size()];
    auto const exchange =
        ballast::detail::find_exchange(giving, taking, {50, 50, 50}, memory, work);
    found += exchange.net == 50 ? 1 : 0;
    ++pair;
  }
  state.counters["found"] = static_cast<double>(found) / static_cast<double>(pair);
  state.counters["work"] = static_cast<double>(all_work - work.left()) / static_cast<double>(pair);
}

BENCHMARK(one_exchange)->ArgName("candidates")->DenseRange(4, 14, 2)->Unit(benchmark::kMicrosecond);

// Baseline: the same by trying every pair of subsets, sums ready.
void one_exchange_by_trying(benchmark::State& state)
{
  auto const candidates = static_cast<std::size_t>(state.range(0));
  ballast::random_source random(7);
  auto const sums = [&] {
    std::vector<cost_units> all{0};
    for (std::size_t count = 0; count < candidates; ++count) {
      cost_units const cost = random.between(1000, 150'000);
      std::size_t const size = all.size();
      for (std::size_t subset = 0; subset < size; ++subset) { all.push_back(all[subset] + cost); }
    }
    return all;
  };
  auto const giving = sums();
  auto const taking = sums();
  for (auto _ : state) {
    cost_units best = 0;
    for (cost_units const given : giving) {
      for (cost_units const taken : taking) {
        cost_units const net = given - taken;
        best = net >= 50 && (best == 0 || net < best) ? net : best;
      }
    }
    benchmark::DoNotOptimize(best);
  }
}

BENCHMARK(one_exchange_by_trying)
    ->ArgName("candidates")
    ->DenseRange(4, 10, 2)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
