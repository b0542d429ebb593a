// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/pipeline_families.hpp"  // defines: times_of, named_families

#include <benchmark/benchmark.h>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/interval_filling.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/order_microbatches.hpp>

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
  auto const schedule = ballast::one_forward_one_backward{}(graph, microbatches).value();
  return compiled_schedule::make(graph, schedule).value();
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
    evaluator.evaluate(orders, makespans);
    best = std::min(best, std::ranges::min(makespans));
  }
  return best;
}

// Of a hundred instances: the share in which the search finds the optimum, and what it misses it by.
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

// Means over instances of how far orders are above the bound, and the worst that a search of the
// default length is above one of a hundred times its evaluations.
void large(benchmark::State& state, ballast_test::time_family family)
{
  constexpr std::size_t instances = 10;
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const stages = static_cast<std::size_t>(state.range(1));
  auto const evaluations = static_cast<std::uint64_t>(state.range(2));
  auto const schedule = chain(stages, microbatches);
  bool const is_long = evaluations > local_search<>{}.evaluations;
  double gap = 0;
  double gap_given = 0;
  double gap_interval = 0;
  double above_long = 0;
  double took = 0;
  for (auto _ : state) {
    gap = gap_given = gap_interval = above_long = 0;
    took = 0;
    for (std::size_t seed = 0; seed < instances; ++seed) {
      auto const times = ballast_test::times_of(family, microbatches, stages, 2000 + seed);
      double const start = processor_milliseconds();
      auto const plan =
          ballast::order_microbatches(schedule, times, local_search<>{.evaluations = evaluations})
              .value();
      took += processor_milliseconds() - start;
      auto const bound = static_cast<double>(plan.lower_bound);
      time_units const interval = makespan_by(schedule, times, ballast::interval_filling{});
      gap += plan.gap() / instances;
      gap_given += (static_cast<double>(plan.makespan_given) / bound - 1) / instances;
      gap_interval += (static_cast<double>(interval) / bound - 1) / instances;
      if (is_long) {
        time_units const usual = makespan_by(schedule, times, local_search<>{});
        above_long = std::max(above_long,
                              static_cast<double>(usual) / static_cast<double>(plan.makespan) - 1);
      }
    }
  }
  state.counters["gap"] = gap;
  state.counters["gap_given"] = gap_given;
  state.counters["gap_interval"] = gap_interval;
  if (is_long) { state.counters["default_above"] = above_long; }
  state.counters["ms_per_plan"] = took / instances;
}

[[maybe_unused]] bool const registered = [] {
  for (auto const& [family, name] : ballast_test::named_families) {
    benchmark::RegisterBenchmark(("order/search/" + std::string(name)).c_str(), small, family)
        ->ArgNames({"microbatches", "stages"})
        ->ArgsProduct({{6, 8}, {4, 8}})
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("order/search/" + std::string(name)).c_str(), large, family)
        ->ArgNames({"microbatches", "stages", "evaluations"})
        ->ArgsProduct({{64}, {8, 16}, {40'000, 4'000'000}})
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
