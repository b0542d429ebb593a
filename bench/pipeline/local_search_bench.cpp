// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/pipeline_families.hpp"  // defines: times_of, named_families

#include <benchmark/benchmark.h>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

namespace {

using ballast::compiled_schedule;
using ballast::local_search;
using ballast::microbatch_id;
using ballast::pipeline_times;
using ballast::time_units;

double processor_milliseconds()
{
  return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

compiled_schedule chain(std::size_t stages, std::size_t microbatches)
{
  auto const graph = ballast::chain_of_stages(stages, stages);
  return compiled_schedule::make(graph, ballast::one_forward_one_backward{}, microbatches).value();
}

time_units makespan_by(compiled_schedule const& schedule, pipeline_times const& times,
                       auto const& policy)
{
  return ballast::order_microbatches(schedule, times, policy).value().makespan;
}

// Looks at every order, thousands at once.
time_units shortest_of_all(compiled_schedule const& schedule, pipeline_times const& times)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::order_evaluator evaluator(schedule, times, scratch);
  std::vector<microbatch_id> order(times.microbatches());
  for (std::size_t at = 0; at < order.size(); ++at) {
    order[at] = ballast::to_id<microbatch_id>(at);
  }
  std::vector<microbatch_id> orders;
  std::vector<time_units> makespans;
  time_units best = std::numeric_limits<time_units>::max();
  for (bool more = true; more;) {
    orders.clear();
    for (std::size_t row = 0; more && row < 4096; ++row) {
      orders.insert(orders.end(), order.begin(), order.end());
      more = std::ranges::next_permutation(order).found;
    }
    makespans.resize(orders.size() / order.size());
    evaluator.evaluate_into(makespans, orders);
    best = std::min(best, std::ranges::min(makespans));
  }
  return best;
}

// Over a hundred instances: how often the search finds the optimum, and how far above it it is.
void small(benchmark::State& state, ballast_test::time_family family)
{
  constexpr std::size_t instances = 100;
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const stages = static_cast<std::size_t>(state.range(1));
  auto const schedule = chain(stages, microbatches);
  std::vector<pipeline_times> times;
  std::vector<time_units> optima;
  for (std::size_t seed = 0; seed < instances; ++seed) {
    times.push_back(ballast_test::times_of(family, microbatches, stages, 1000 + seed));
    optima.push_back(shortest_of_all(schedule, times.back()));
  }
  local_search<> const brief{.evaluations = 20'000};
  double found = 0;
  double excess = 0;
  double interval_excess = 0;
  std::vector<double> milliseconds;
  for (auto _ : state) {
    found = excess = interval_excess = 0;
    for (std::size_t each = 0; each < instances; ++each) {
      double const start = processor_milliseconds();
      time_units const makespan = makespan_by(schedule, times[each], brief);
      milliseconds.push_back(processor_milliseconds() - start);
      auto const optimum = static_cast<double>(optima[each]);
      found += makespan == optima[each] ? 1 : 0;
      excess += static_cast<double>(makespan) / optimum - 1;
      interval_excess +=
          static_cast<double>(makespan_by(schedule, times[each], ballast::interval_filling{})) /
              optimum -
          1;
    }
  }
  std::ranges::nth_element(milliseconds, milliseconds.begin() + milliseconds.size() / 2);
  state.counters["optimal"] = found / instances;
  state.counters["excess"] = excess / instances;
  state.counters["interval_excess"] = interval_excess / instances;
  state.counters["median_ms"] = milliseconds[milliseconds.size() / 2];
}

// The simplest bound: all that a stage has to do, after the shortest path to it and before the
// shortest path back.
time_units work_bound(pipeline_times const& times)
{
  time_units bound = 0;
  for (std::size_t stage = 0; stage < times.stages; ++stage) {
    time_units work = 0;
    ballast::stage_time shortest{std::numeric_limits<time_units>::max(),
                                 std::numeric_limits<time_units>::max()};
    for (std::size_t row = 0; row < times.microbatches(); ++row) {
      auto const microbatch = times[ballast::to_id<microbatch_id>(row)];
      work += microbatch[stage].forward + microbatch[stage].backward;
      ballast::stage_time path;
      for (auto const& before : microbatch.first(stage)) {
        path.forward += before.forward;
        path.backward += before.backward;
      }
      shortest.forward = std::min(shortest.forward, path.forward);
      shortest.backward = std::min(shortest.backward, path.backward);
    }
    bound = std::max(bound, shortest.forward + work + shortest.backward);
  }
  return bound;
}

// Means over steps, in shares of the lower bound: how far orders are above it, and by how much the
// search is below interval filling. above_long is what a search of a hundredth of the evaluations
// is above this one.
void large(benchmark::State& state, ballast_test::time_family family)
{
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const stages = static_cast<std::size_t>(state.range(1));
  auto const evaluations = static_cast<std::uint64_t>(state.range(2));
  auto const steps = static_cast<std::size_t>(state.range(3));
  auto const schedule = chain(stages, microbatches);
  bool const is_long = evaluations > 1'000'000;
  for (auto _ : state) {
    auto& counters = state.counters;
    counters.clear();
    auto const add_to_mean = [&](char const* name, double value) {
      counters[name] = counters[name] + value / static_cast<double>(steps);
    };
    for (std::size_t seed = 0; seed < steps; ++seed) {
      auto const times = ballast_test::times_of(family, microbatches, stages, 2000 + seed);
      double const start = processor_milliseconds();
      auto const plan =
          ballast::order_microbatches(schedule, times, local_search<>{.evaluations = evaluations})
              .value();
      add_to_mean("ms_per_plan", processor_milliseconds() - start);
      auto const makespan = static_cast<double>(plan.makespan);
      auto const given = static_cast<double>(plan.makespan_given);
      auto const interval =
          static_cast<double>(makespan_by(schedule, times, ballast::interval_filling{}));
      auto const bound = static_cast<double>(plan.lower_bound);
      add_to_mean("gap", makespan / bound - 1);
      add_to_mean("gap_given", given / bound - 1);
      add_to_mean("gap_interval", interval / bound - 1);
      add_to_mean("below_interval", (interval - makespan) / bound);
      add_to_mean("below_interval_of_work",
                  (interval - makespan) / static_cast<double>(work_bound(times)));
      if (is_long) {
        time_units const brief =
            makespan_by(schedule, times, local_search<>{.evaluations = evaluations / 100});
        double const above = static_cast<double>(brief) / makespan - 1;
        add_to_mean("above_long", above);
        counters["above_long_worst"] = std::max(counters["above_long_worst"].value, above);
      }
    }
  }
}

[[maybe_unused]] bool const searches_registered = [] {
  for (auto const& [family, name] : ballast_test::named_families) {
    benchmark::RegisterBenchmark(("order/search/" + std::string(name)).c_str(), small, family)
        ->ArgNames({"microbatches", "stages"})
        ->ArgsProduct({{6, 8}, {4, 8}})
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
    // A third of the default, and a hundred times that.
    benchmark::RegisterBenchmark(("order/search/" + std::string(name)).c_str(), large, family)
        ->ArgNames({"microbatches", "stages", "evaluations", "steps"})
        ->ArgsProduct({{64}, {8}, {64'000, 6'400'000}, {10}})
        ->ArgsProduct({{64}, {16}, {36'000, 3'600'000}, {10}})
        ->Args({64, 8, 64'000, 100})
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  // The family that a longer search gains most on where modules have stages that are alike.
  benchmark::RegisterBenchmark("order/search/encoder_and_llm", large,
                               ballast_test::time_family::encoder_and_llm)
      ->ArgNames({"microbatches", "stages", "evaluations", "steps"})
      ->Args({64, 8, 6'400'000, 60})
      ->Args({64, 16, 3'600'000, 60})
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
