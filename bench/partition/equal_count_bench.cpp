#include "../../tests/support/seqlen_balancing.hpp"  // defines: what trainers have today
#include "../common/plain_search.hpp"                // the baselines N1 and N2
#include "../common/workloads.hpp"                   // defines: bench::lognormal_lengths, ...

#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>

#include <functional>

namespace {

using ballast::cost_units;
using ballast::tokens;

// No seed of theirs was looked at while the policies' defaults were chosen.
constexpr std::size_t drawn_steps = 100;
constexpr std::uint64_t first_seed = 70'000;

constexpr tokens no_limit = std::numeric_limits<tokens>::max();

std::vector<std::vector<tokens>> draw_steps(std::size_t samples, double sigma,
                                            tokens longest = no_limit)
{
  std::vector<std::vector<tokens>> steps(drawn_steps);
  for (std::size_t seed = 0; seed < drawn_steps; ++seed) {
    steps[seed] = bench::lognormal_lengths(samples, sigma, first_seed + seed);
    for (tokens& length : steps[seed]) { length = std::min(length, longest); }
  }
  return steps;
}

// Costs in units of which a bag has 10^7 on average: proven then means to 10^-7 of the mean load.
auto unit_cost(std::vector<tokens> const& lengths, std::size_t bags)
{
  auto const cost = bench::transformer_cost();
  cost_units total = 0;
  for (tokens const length : lengths) { total += cost(length); }
  cost_units const unit =
      std::max<cost_units>(total / static_cast<cost_units>(bags) / 10'000'000, 1);
  return [cost, unit](tokens length) { return cost(length) / unit; };
}

double largest(std::vector<cost_units> const& loads)
{
  return static_cast<double>(std::ranges::max(loads));
}

std::vector<cost_units> sums_by_owner(std::vector<ballast::bag_id> const& owner,
                                      std::vector<cost_units> const& of, std::size_t bags)
{
  std::vector<cost_units> sums(bags, 0);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    sums[to_index(owner[sample])] += of[sample];
  }
  return sums;
}

// Equal counts: the whole front door in the steady state, a step of another seed every time.
void equal_count(benchmark::State& state)
{
  auto const bags = static_cast<std::size_t>(state.range(1));
  auto const steps = draw_steps(static_cast<std::size_t>(state.range(0)),
                                static_cast<double>(state.range(2)) / 10, state.range(4));
  auto const layout = ballast::one_gpu_bags(bags);
  ballast::refine<> const policy{.work = static_cast<std::uint64_t>(state.range(3))};
  ballast::partition_plan plan;
  ballast::workspace memory;
  auto const plan_step = [&](std::vector<tokens> const& lengths, auto const& cost) {
    bool const done = ballast::partition_into(plan, memory, lengths, layout, cost,
                                              {.samples = ballast::counts::equal()}, policy)
                          .has_value();
    benchmark::DoNotOptimize(done);
  };
  std::vector<decltype(unit_cost(steps[0], bags))> costs;
  for (auto const& lengths : steps) { costs.push_back(unit_cost(lengths, bags)); }
  std::size_t step = 0;
  for (auto _ : state) {
    plan_step(steps[step % drawn_steps], costs[step % drawn_steps]);
    ++step;
  }

  double worst_gap = 0;
  int above_1e4 = 0;
  int proven = 0;
  std::vector<double> milliseconds;
  for (std::size_t seed = 0; seed < drawn_steps; ++seed) {
    milliseconds.push_back(1e3 *
                           bench::median_seconds(11, [&] { plan_step(steps[seed], costs[seed]); }));
    worst_gap = std::max(worst_gap, plan.gap());
    above_1e4 += plan.gap() > 1e-4 ? 1 : 0;
    proven += plan.proven_optimal() ? 1 : 0;
  }
  std::ranges::sort(milliseconds);
  state.counters["worst_gap"] = worst_gap;
  state.counters["above_1e4_of_100"] = above_1e4;
  state.counters["proven_of_100"] = proven;
  state.counters["median_ms"] = milliseconds[drawn_steps / 2];
}

// Lengths that are cut leave several giants of one length in a step, which share the lightest
// samples.
BENCHMARK(equal_count)
    ->ArgNames({"samples", "bags", "sigma_x10", "work", "longest"})
    ->ArgsProduct({{1024, 4096}, {64}, {10, 15}, {2'000'000, 20'000'000}, {no_limit}})
    ->Args({768, 64, 10, 2'000'000, 16'384})
    ->Args({768, 64, 10, 20'000'000, 16'384})
    ->Args({512, 64, 15, 2'000'000, 16'384})
    ->Args({512, 64, 15, 20'000'000, 16'384})
    ->Unit(benchmark::kMicrosecond);

// The counts of a plan, filled heaviest first: each to the bag with a free place that finishes
// earliest. Where that leaves a sample without one, the plan itself.
std::vector<ballast::bag_id> dealt_counts(ballast::partition_plan const& plan,
                                          bench::plain_step<1> const& step)
{
  std::vector<ballast::bag_id> owner(plan.owner.size());
  std::vector<cost_units> loads(step.speeds.size(), 0);
  std::vector<std::size_t> places;
  for (auto const samples : plan.samples) { places.push_back(samples.size()); }
  std::vector<ballast::priced_sample> heaviest_first(owner.size());
  ballast::workspace memory;
  ballast::descending_order_into(heaviest_first, plan.costs, memory);
  for (auto const& each : heaviest_first) {
    std::size_t const sample = to_index(each.sample);
    std::size_t best = loads.size();
    ballast::ratio earliest;
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      bool const fits = step.lengths[sample] >= static_cast<tokens>(step.gpus[bag]);
      ballast::ratio const finish{loads[bag] + plan.costs[sample], step.speeds[bag]};
      if (!fits || places[bag] == 0 || (best < loads.size() && finish >= earliest)) { continue; }
      best = bag;
      earliest = finish;
    }
    if (best == loads.size()) { return plan.owner; }
    owner[sample] = ballast::to_id<ballast::bag_id>(best);
    loads[best] += plan.costs[sample];
    --places[best];
  }
  return owner;
}

// Drawn steps beside N1 and N2, which swap samples only and have five times the CPU time. They
// begin with `dealt_counts`.
void counts_beside_swaps(benchmark::State& state, std::uint32_t multiple, bool speeds, bool sizes)
{
  ballast::workspace memory;
  bench::compared_plans n1;
  bench::compared_plans n2;
  double seconds = 0;
  double steps = 0;
  for (auto _ : state) {
    ballast::random_source random(bench::seed_of(state, 47 + multiple));
    for (std::size_t trial = 0; trial < 72; ++trial) {
      std::size_t const count = std::array{3U, 4U, 5U, 8U, 8U, 16U}[trial % 6];
      std::size_t const samples =
          std::array{9U, 14U, 24U, 40U, 64U, 128U}[trial % 6] + random.below(count);
      std::vector<std::uint32_t> gpus(count, 1);
      std::vector<std::uint32_t> gpu_speeds;
      for (std::uint32_t& each : gpus) {
        if (sizes) { each = std::uint32_t{1} << random.below(4); }
      }
      gpus.front() = 1;
      std::vector<ballast::bag> placed;
      for (std::uint32_t const each : gpus) {
        placed.push_back({ballast::rank_id{static_cast<std::uint32_t>(gpu_speeds.size())}, each});
        auto const speed = speeds ? static_cast<std::uint32_t>(random.between(40, 100)) : 1;
        gpu_speeds.insert(gpu_speeds.end(), each, speed);
      }
      auto const bags = ballast::bag_layout(placed).with_speeds(gpu_speeds);
      std::vector<tokens> lengths = bench::lognormal_lengths(samples, 1.0, random());
      for (tokens& length : lengths) {
        if (trial % 4 == 0) { length = random.between(1, 10'000); }
        if (trial % 4 == 1) { length = 128 * random.between(1, 32); }
        if (trial % 8 == 2) { length = random.between(900, 1'000); }
      }
      auto const cost = [](tokens length) { return length * (length + 50); };
      double const before = bench::cpu_seconds();
      auto const plan =
          ballast::partition(lengths, bags, cost, {.samples = ballast::counts::equal(multiple)});
      double const took = bench::cpu_seconds() - before;
      if (!plan) { continue; }
      seconds += took;
      ++steps;
      bench::plain_step<1> step{.costs = {},
                                .lengths = lengths,
                                .gpus = gpus,
                                .speeds = {bags.speeds().begin(), bags.speeds().end()},
                                .weights = std::vector<std::int64_t>(samples, 0),
                                .keeps_counts = true};
      for (cost_units const each : plan->costs) { step.costs.push_back({each}); }
      bench::compare_with_plain_search<1>(*plan, step, dealt_counts(*plan, step), 5 * took, n1, n2);
    }
  }
  n1.count(state, "n1");
  n2.count(state, "n2");
  state.counters["steps"] = steps;
  state.counters["mean_ms"] = 1e3 * seconds / steps;
}
BENCHMARK_CAPTURE(counts_beside_swaps, plain, 1, false, false)->Iterations(1);
BENCHMARK_CAPTURE(counts_beside_swaps, multiple_2, 2, false, false)->Iterations(1);
BENCHMARK_CAPTURE(counts_beside_swaps, multiple_4, 4, false, false)->Iterations(1);
BENCHMARK_CAPTURE(counts_beside_swaps, speeds, 1, true, false)->Iterations(1);
BENCHMARK_CAPTURE(counts_beside_swaps, sizes, 1, false, true)->Iterations(1);
BENCHMARK_CAPTURE(counts_beside_swaps, sizes_multiple_2, 2, false, true)->Iterations(1);

// Rules: all bags full, and samples of one key, four each, apart. The gap is to the bound of all
// plans, with rules or without.
void placement_rules(benchmark::State& state)
{
  auto const bags = static_cast<std::size_t>(state.range(1));
  auto const steps = draw_steps(static_cast<std::size_t>(state.range(0)), 1);
  auto const layout = ballast::one_gpu_bags(bags);
  std::vector<std::size_t> keys(steps[0].size());
  for (std::size_t sample = 0; sample < keys.size(); ++sample) { keys[sample] = sample / 4; }
  ballast::placement_limits const rules{
      .samples = ballast::counts::at_most(static_cast<std::int64_t>(keys.size() / bags)),
      .apart = keys};
  ballast::partition_plan plan;
  ballast::workspace memory;
  std::size_t step = 0;
  double worst_gap = 0;
  for (auto _ : state) {
    auto const& lengths = steps[step++ % drawn_steps];
    bool const done =
        ballast::partition_into(plan, memory, lengths, layout, unit_cost(lengths, bags), rules)
            .has_value();
    benchmark::DoNotOptimize(done);
    worst_gap = std::max(worst_gap, plan.gap());
  }
  state.counters["worst_gap"] = worst_gap;
}
BENCHMARK(placement_rules)
    ->ArgNames({"samples", "bags"})
    ->Args({1024, 64})
    ->Args({4096, 64})
    ->Unit(benchmark::kMicrosecond);

// Baseline: the differencing of equal sizes that trainers have today, given the same costs. The gap
// is to the bound that equal_count proves.
void equal_size_differencing(benchmark::State& state)
{
  auto const bags = static_cast<std::size_t>(state.range(1));
  auto const steps = draw_steps(static_cast<std::size_t>(state.range(0)),
                                static_cast<double>(state.range(2)) / 10);
  std::vector<ballast::partition_plan> ours;
  for (auto const& lengths : steps) {
    ours.push_back(ballast::partition(lengths, ballast::one_gpu_bags(bags),
                                      unit_cost(lengths, bags),
                                      {.samples = ballast::counts::equal()})
                       .value());
  }
  std::size_t step = 0;
  for (auto _ : state) {
    auto const owner =
        ballast_test::seqlen_balanced_partitions(ours[step++ % drawn_steps].costs, bags, true);
    benchmark::DoNotOptimize(owner.data());
  }
  std::vector<double> gaps;
  for (auto const& plan : ours) {
    auto const owner = ballast_test::seqlen_balanced_partitions(plan.costs, bags, true);
    gaps.push_back(largest(sums_by_owner(owner, plan.costs, bags)) / plan.lower_bound.value() - 1);
  }
  std::ranges::sort(gaps);
  state.counters["best_gap"] = gaps.front();
  state.counters["median_gap"] = gaps[drawn_steps / 2];
  state.counters["worst_gap"] = gaps.back();
}

BENCHMARK(equal_size_differencing)
    ->ArgNames({"samples", "bags", "sigma_x10"})
    ->ArgsProduct({{1024, 4096}, {64}, {10, 15}})
    ->Unit(benchmark::kMicrosecond);

// A hard cap on tokens, `slack` thousandths above what a bag holds on average but never below the
// longest sample. overrun_of_100: steps in which some bag of the plan is above the cap, and by how
// much the worst of them is.
template <class Policy>
void cap_on(benchmark::State& state, Policy policy, bool told, ballast::bag_layout const& layout,
            ballast::counts samples = {})
{
  auto const bags = static_cast<std::size_t>(state.range(1));
  auto const steps = draw_steps(static_cast<std::size_t>(state.range(0)), 1.0);
  ballast::partition_plan plan;
  ballast::workspace memory;
  auto const cap_of = [&](std::vector<tokens> const& lengths) {
    tokens const total = std::reduce(lengths.begin(), lengths.end(), tokens{0});
    return std::max(total / static_cast<tokens>(bags) * (1000 + state.range(2)) / 1000,
                    std::ranges::max(lengths));
  };
  auto const plan_step = [&](std::vector<tokens> const& lengths) {
    if constexpr (requires { policy.most; }) {
      policy.weights = lengths;
      policy.most = cap_of(lengths);
    }
    return ballast::partition_into(
               plan, memory, lengths, layout, bench::transformer_cost(),
               {.most_per_gpu = told ? cap_of(lengths) : ballast::no_limit, .samples = samples},
               policy)
        .has_value();
  };
  std::size_t step = 0;
  for (auto _ : state) {
    bool const done = plan_step(steps[step++ % drawn_steps]);
    benchmark::DoNotOptimize(done);
  }
  double worst_gap = 0;
  double all_gaps = 0;
  double worst_overrun = 0;
  int overrun = 0;
  int refused = 0;
  for (auto const& lengths : steps) {
    if (!plan_step(lengths)) {
      ++refused;
      continue;
    }
    double const over =
        largest(sums_by_owner(plan.owner, lengths, bags)) / static_cast<double>(cap_of(lengths)) -
        1;
    overrun += over > 0 ? 1 : 0;
    worst_overrun = std::max(worst_overrun, over);
    worst_gap = std::max(worst_gap, plan.gap());
    all_gaps += plan.gap();
  }
  state.counters["mean_gap"] = all_gaps / std::max(static_cast<int>(drawn_steps) - refused, 1);
  state.counters["worst_gap"] = worst_gap;
  state.counters["overrun_of_100"] = overrun;
  state.counters["worst_overrun"] = worst_overrun;
  state.counters["refused_of_100"] = refused;
}

template <class Policy>
void token_cap(benchmark::State& state, Policy policy, bool told, ballast::counts samples = {})
{
  cap_on(state, policy, told, ballast::one_gpu_bags(static_cast<std::size_t>(state.range(1))),
         samples);
}

// The same on GPUs of speeds 1, 2, 3 and 4 in turn that hold as much as each other.
template <class Policy>
void mixed_speeds_cap(benchmark::State& state, Policy policy)
{
  std::vector<std::uint32_t> speeds;
  for (std::uint32_t gpu = 0; gpu < state.range(1); ++gpu) { speeds.push_back(1 + gpu % 4); }
  bool const told = !requires { policy.most; };
  cap_on(state, policy, told, ballast::one_gpu_bags(speeds.size()).with_speeds(speeds));
}

// Baseline: heaviest first to the bag with room that finishes earliest, or heaviest weight first to
// the bag with most room, then the move or swap of one sample with room for it that helps the
// latest bag most, until none does.
struct plain_local_search {
  bool by_weight = false;
  std::span<std::int64_t const> weights = {};
  std::int64_t most = 0;  // weight of a bag; the front door knows of none

  void operator()(ballast::partition_problem const& problem, std::span<cost_units> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace&) const
  {
    std::vector<std::size_t> order(weights.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::span<std::int64_t const> const first = by_weight ? weights : problem.costs;
    std::ranges::stable_sort(order, std::greater{},
                             [first](std::size_t each) { return first[each]; });
    state now{problem, weights, loads, owner, std::vector<std::int64_t>(loads.size(), most)};
    for (std::size_t const sample : order) {
      std::size_t best = loads.size();
      for (std::size_t bag = 0; bag < loads.size(); ++bag) {
        if (now.room[bag] < weights[sample]) { continue; }
        bool const is_better =
            best == loads.size() || (by_weight ? now.room[bag] > now.room[best]
                                               : now.finish(bag, problem.costs[sample]) <
                                                     now.finish(best, problem.costs[sample]));
        if (is_better) { best = bag; }
      }
      if (best == loads.size()) {  // it overruns the bag that it overruns least
        best = static_cast<std::size_t>(std::ranges::max_element(now.room) - now.room.begin());
      }
      now.put(sample, best);
    }
    while (now.step()) {}
  }

 private:
  struct state {
    ballast::partition_problem const& problem;
    std::span<std::int64_t const> weights;
    std::span<cost_units> loads;
    std::span<ballast::bag_id> owner;
    std::vector<std::int64_t> room;

    [[nodiscard]] ballast::ratio finish(std::size_t bag, cost_units more) const
    {
      return {loads[bag] + more, problem.speeds[bag]};
    }
    void put(std::size_t sample, std::size_t bag)
    {
      std::size_t const before = to_index(owner[sample]);
      if (before < loads.size()) {
        loads[before] -= problem.costs[sample];
        room[before] += weights[sample];
      }
      owner[sample] = ballast::to_id<ballast::bag_id>(bag);
      loads[bag] += problem.costs[sample];
      room[bag] -= weights[sample];
    }

    bool step()
    {
      std::size_t late = 0;
      for (std::size_t bag = 1; bag < loads.size(); ++bag) {
        if (finish(bag, 0) > finish(late, 0)) { late = bag; }
      }
      ballast::ratio best = finish(late, 0);
      std::size_t given = 0;
      std::size_t taken = 0;
      std::size_t to = late;
      auto const consider = [&](std::size_t x, std::size_t y, std::size_t bag, cost_units net,
                                std::int64_t weight) {
        if (net <= 0 || weight > room[bag] || -weight > room[late]) { return; }
        auto const later = std::max(finish(late, -net), finish(bag, net));
        if (later < best) { best = later, given = x, taken = y, to = bag; }
      };
      for (std::size_t x = 0; x < problem.costs.size(); ++x) {
        if (to_index(owner[x]) != late) { continue; }
        for (std::size_t bag = 0; bag < loads.size(); ++bag) {
          if (bag != late) { consider(x, x, bag, problem.costs[x], weights[x]); }
        }
        for (std::size_t y = 0; y < problem.costs.size(); ++y) {
          std::size_t const bag = to_index(owner[y]);
          if (bag == late) { continue; }
          consider(x, y, bag, problem.costs[x] - problem.costs[y], weights[x] - weights[y]);
        }
      }
      if (to == late) { return false; }
      if (taken != given) { put(taken, late); }
      put(given, to);
      return true;
    }
  };
};

void caps(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "bags", "slack_permille"})
      ->ArgsProduct({{1024, 4096}, {64}, {2, 10, 50}})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(token_cap, longest_processing_time, ballast::longest_processing_time{}, false)
    ->Apply(caps);
BENCHMARK_CAPTURE(token_cap, plain_local_search, plain_local_search{}, false)->Apply(caps);
BENCHMARK_CAPTURE(token_cap, capped, ballast::longest_processing_time{}, true)->Apply(caps);
BENCHMARK_CAPTURE(token_cap, equal_count, ballast::longest_processing_time{}, false,
                  ballast::counts::equal())
    ->Apply(caps);
BENCHMARK_CAPTURE(token_cap, capped_equal_count, ballast::longest_processing_time{}, true,
                  ballast::counts::equal())
    ->Apply(caps);
BENCHMARK_CAPTURE(mixed_speeds_cap, plain_local_search, plain_local_search{})->Apply(caps);
BENCHMARK_CAPTURE(mixed_speeds_cap, capped, ballast::longest_processing_time{})->Apply(caps);

// Costs that do not follow from weights, as those of an encoder beside tokens: drawn apart, or
// three or forty a token. `slack` as above; worst_gap and refused of 20 steps.
template <class Policy>
void independent_cap(benchmark::State& state, Policy policy, ballast::counts samples_of_bag = {})
{
  constexpr int steps = 20;
  auto const bags = static_cast<std::size_t>(state.range(1));
  ballast::random_source random(47);
  std::vector<std::size_t> samples(static_cast<std::size_t>(state.range(0)));
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  std::vector<std::vector<std::int64_t>> weights(steps);
  std::vector<std::vector<cost_units>> costs(steps);
  std::vector<std::int64_t> caps(steps);
  for (std::size_t step = 0; step < steps; ++step) {
    auto const lengths = bench::lognormal_lengths(samples.size(), 1.0, 4700 + step);
    auto const apart = bench::lognormal_lengths(samples.size(), 1.2, 4800 + step);
    weights[step].assign(lengths.begin(), lengths.end());
    for (std::size_t const sample : samples) {
      tokens const by_token = lengths[sample] * (random.below(2) == 0 ? 3 : 40);
      costs[step].push_back(step % 2 == 0 ? apart[sample] : by_token);
    }
    std::int64_t const total = std::reduce(lengths.begin(), lengths.end(), tokens{0});
    caps[step] = std::max(total / static_cast<std::int64_t>(bags) * (1000 + state.range(2)) / 1000,
                          std::ranges::max(lengths));
  }
  auto const layout = ballast::one_gpu_bags(bags);
  ballast::partition_plan plan;
  ballast::workspace memory;
  double gaps = 0;
  double worst_gap = 0;
  int refused = 0;
  for (auto _ : state) {
    gaps = worst_gap = refused = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      ballast::placement_limits limits{.also = {{.of = weights[step], .most_per_gpu = caps[step]}},
                                       .samples = samples_of_bag};
      if constexpr (requires { policy.most; }) {
        policy.weights = weights[step];
        policy.most = caps[step];
        limits.also = {};
      }
      bool const done =
          ballast::partition_into(
              plan, memory, samples, layout,
              [&](std::size_t sample) { return costs[step][sample]; },
              [](std::size_t) { return tokens{1}; }, limits, policy)
              .has_value() &&
          std::ranges::max(sums_by_owner(plan.owner, weights[step], bags)) <= caps[step];
      if (!done) {
        ++refused;
        continue;
      }
      gaps += plan.gap();
      worst_gap = std::max(worst_gap, plan.gap());
    }
  }
  state.counters["mean_gap"] = gaps / std::max(steps - refused, 1);
  state.counters["worst_gap"] = worst_gap;
  state.counters["refused_of_20"] = refused;
}

void independent_caps(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"samples", "bags", "slack_permille"})
      ->Args({221, 16, 10})
      ->Args({512, 32, 5})
      ->Args({2048, 64, 5})
      ->Args({2048, 64, 20})
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(independent_cap, plain_local_search, plain_local_search{true})
    ->Apply(independent_caps);
BENCHMARK_CAPTURE(independent_cap, capped, ballast::longest_processing_time{})
    ->Apply(independent_caps);
BENCHMARK_CAPTURE(independent_cap, capped_equal_count, ballast::longest_processing_time{},
                  ballast::counts::equal())
    ->Apply(independent_caps);

// Baseline: dynamic batches as trainers have them today. Tokens over the cap, rounded up, is the
// number of microbatches; differencing balances their tokens, and nothing looks at the cap again.
void dynamic_batches(benchmark::State& state)
{
  auto const cap = static_cast<tokens>(state.range(1));
  auto steps = draw_steps(static_cast<std::size_t>(state.range(0)), 1.0);
  int overrun = 0;
  int ours = 0;
  double worst_overrun = 0;
  auto const batches_of = [cap](std::vector<tokens> const& lengths) {
    tokens const total = std::reduce(lengths.begin(), lengths.end(), tokens{0});
    return static_cast<std::size_t>((total + cap - 1) / cap);
  };
  for (auto& lengths : steps) {
    for (tokens& length : lengths) { length = std::min(length, cap); }
    auto const owner =
        ballast_test::seqlen_balanced_partitions(lengths, batches_of(lengths), false);
    double const over =
        largest(sums_by_owner(owner, lengths, batches_of(lengths))) / static_cast<double>(cap) - 1;
    overrun += over > 0 ? 1 : 0;
    worst_overrun = std::max(worst_overrun, over);
    ours += ballast::partition(lengths, ballast::one_gpu_bags(batches_of(lengths)),
                               bench::transformer_cost(), {.most_per_gpu = cap},
                               ballast::longest_processing_time{})
                    .has_value()
                ? 1
                : 0;
  }
  std::size_t step = 0;
  for (auto _ : state) {
    auto const& lengths = steps[step++ % drawn_steps];
    auto const owner =
        ballast_test::seqlen_balanced_partitions(lengths, batches_of(lengths), false);
    benchmark::DoNotOptimize(owner.data());
  }
  state.counters["overrun_of_100"] = overrun;
  state.counters["worst_overrun"] = worst_overrun;
  state.counters["capped_finds_of_100"] = ours;
}

BENCHMARK(dynamic_batches)
    ->ArgNames({"samples", "cap"})
    ->ArgsProduct({{64, 256}, {8192, 16'384}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
