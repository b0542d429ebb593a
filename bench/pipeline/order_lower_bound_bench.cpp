// SPDX-License-Identifier: Apache-2.0
#include "../../tests/support/pipeline_families.hpp"  // defines: times_of, named_families

#include <benchmark/benchmark.h>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_lower_bound.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

using ballast::compiled_schedule;
using ballast::microbatch_id;
using ballast::order_lower_bound;
using ballast::pipeline_times;
using ballast::time_units;

enum class pipeline { chain, transfers, interleaved, gpipe, encoders };

compiled_schedule schedule_of(pipeline kind, std::size_t ranks, std::size_t microbatches)
{
  auto const compile = [&](ballast::stage_graph const& stages, auto const& policy) {
    return compiled_schedule::make(stages, policy, microbatches).value();
  };
  switch (kind) {
    case pipeline::chain: break;
    case pipeline::transfers:
      return compile(ballast::chain_of_stages(ranks, ranks, 3'000),
                     ballast::one_forward_one_backward{});
    case pipeline::interleaved:
      return compile(ballast::chain_of_stages(2 * ranks, ranks),
                     ballast::interleaved_one_forward_one_backward{});
    case pipeline::gpipe: return compile(ballast::chain_of_stages(ranks, ranks), ballast::gpipe{});
    case pipeline::encoders: {
      ballast::joined_modules const modules{{{1, true}, {1, true}}, {ranks - 2, true}, {}, 0};
      return compile(ballast::joined_stages(modules).value(), ballast::one_forward_one_backward{});
    }
  }
  return compile(ballast::chain_of_stages(ranks, ranks), ballast::one_forward_one_backward{});
}

// Baseline: the work of a rank, and the least that any microbatch takes to reach it and to go on.
time_units work_bound(compiled_schedule const& schedule, pipeline_times const& times)
{
  namespace detail = ballast::detail;
  ballast::workspace memory;
  auto scratch = memory.open();
  detail::step_view const step(schedule, times, scratch);
  time_units bound = 0;
  for (std::size_t at = 0; at < schedule.microbatches(); ++at) {
    bound = std::max(bound, step.longest_path_of(at));
  }
  for (std::size_t number = 0; number < schedule.stages().ranks(); ++number) {
    detail::rank_view const rank(step, ballast::to_id<ballast::pipeline_rank>(number), scratch);
    time_units work = std::ranges::min(step.before(detail::column_of(rank[0]))) +
                      std::ranges::min(step.after(detail::column_of(rank[rank.size() - 1])));
    for (std::size_t const column : rank.columns()) { work += step.total(column); }
    bound = std::max(bound, work);
  }
  return bound;
}

double above(time_units makespan, time_units bound)
{
  return static_cast<double>(makespan) / static_cast<double>(bound) - 1;
}

std::vector<microbatch_id> numbered(std::size_t microbatches)
{
  std::vector<microbatch_id> order(microbatches);
  for (std::size_t at = 0; at < microbatches; ++at) {
    order[at] = ballast::to_id<microbatch_id>(at);
  }
  return order;
}

time_units makespan_by_search(compiled_schedule const& schedule, pipeline_times const& times,
                              std::uint64_t evaluations)
{
  return ballast::order_microbatches(schedule, times,
                                     ballast::local_search<>{.evaluations = evaluations})
      .value()
      .makespan;
}

// How far the orders of a search are above the bound, and above the baseline. The bound may be too
// low or the orders too long: this does not tell which.
void bound(benchmark::State& state, pipeline kind, ballast_test::time_family family)
{
  constexpr std::size_t instances = 5;
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const ranks = static_cast<std::size_t>(state.range(1));
  auto const schedule = schedule_of(kind, ranks, microbatches);
  std::vector<pipeline_times> times;
  double gap = 0;
  double gap_work = 0;
  ballast::workspace memory;
  for (std::size_t seed = 0; seed < instances; ++seed) {
    times.push_back(
        ballast_test::times_of(family, microbatches, schedule.stages().stages(), 2000 + seed));
    time_units const makespan = makespan_by_search(schedule, times.back(), 100'000);
    gap += above(makespan, order_lower_bound(schedule, times.back(), memory)) / instances;
    gap_work += above(makespan, work_bound(schedule, times.back())) / instances;
  }
  std::size_t step = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(order_lower_bound(schedule, times[step++ % instances], memory));
  }
  state.counters["gap"] = gap;
  state.counters["gap_work"] = gap_work;
}

// How often the bound is the optimum, where all orders can be tried, and how far below it is;
// `gap_plan` is the gap that a plan of local_search states.
void tightness(benchmark::State& state, pipeline kind, ballast_test::time_family family)
{
  constexpr std::size_t instances = 50;
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const schedule = schedule_of(kind, static_cast<std::size_t>(state.range(1)), microbatches);
  ballast::workspace memory;
  double tight = 0;
  double gap = 0;
  double gap_work = 0;
  double gap_plan = 0;
  std::vector<pipeline_times> times;
  for (std::size_t seed = 0; seed < instances; ++seed) {
    times.push_back(
        ballast_test::times_of(family, microbatches, schedule.stages().stages(), 3000 + seed));
    gap_plan +=
        ballast::order_microbatches(schedule, times.back(), ballast::local_search{}).value().gap() /
        instances;
    auto scratch = memory.open();
    ballast::order_evaluator evaluator(schedule, times.back(), scratch);
    std::vector<time_units> makespans(720);
    std::vector<microbatch_id> orders;
    auto order = numbered(microbatches);
    time_units optimum = std::numeric_limits<time_units>::max();
    for (bool more = true; more;) {
      orders.clear();
      std::size_t rows = 0;
      for (; more && rows < makespans.size(); ++rows) {
        orders.insert(orders.end(), order.begin(), order.end());
        more = std::ranges::next_permutation(order).found;
      }
      evaluator.evaluate_into(std::span(makespans).first(rows), orders);
      optimum = std::min(optimum, std::ranges::min(std::span(makespans).first(rows)));
    }
    ballast::workspace of_bound;
    time_units const found = order_lower_bound(schedule, times.back(), of_bound);
    tight += found == optimum ? 1.0 / instances : 0;
    gap += above(optimum, found) / instances;
    gap_work += above(optimum, work_bound(schedule, times.back())) / instances;
  }
  std::size_t step = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(order_lower_bound(schedule, times[step++ % instances], memory));
  }
  state.counters["tight"] = tight;
  state.counters["gap_plan"] = gap_plan;
  state.counters["gap"] = gap;
  state.counters["gap_work"] = gap_work;
}

// How far the published formulas are from the simulator when they are given the mean time of every
// stage: negative where a formula is below the makespan.
void formulas(benchmark::State& state, pipeline kind, ballast_test::time_family family)
{
  constexpr std::size_t instances = 5;
  auto const microbatches = static_cast<std::size_t>(state.range(0));
  auto const schedule = schedule_of(kind, static_cast<std::size_t>(state.range(1)), microbatches);
  std::size_t const stages = schedule.stages().stages();
  double dflop_given = 0;
  double dflop_ordered = 0;
  double disttrain_given = 0;
  double disttrain_ordered = 0;
  std::vector<ballast::unit_time> units(stages);  // the mean stages
  for (std::size_t seed = 0; seed < instances; ++seed) {
    auto const times = ballast_test::times_of(family, microbatches, stages, 2000 + seed);
    time_units slowest = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      time_units sum = 0;
      for (std::size_t at = stage; at < times.rows.size(); at += stages) {
        sum += times.rows[at].forward + times.rows[at].backward;
      }
      time_units const mean = sum / static_cast<time_units>(microbatches);
      units[stage] = {mean, mean};
      slowest = std::max(slowest, mean);
    }
    time_units const given = simulate(schedule, times, numbered(microbatches)).makespan;
    time_units const ordered = makespan_by_search(schedule, times, 80'000);
    time_units const dflop = static_cast<time_units>(microbatches + stages - 1) * slowest;
    time_units const disttrain = ballast::disttrain_makespan(units, microbatches);
    dflop_given += above(dflop, given) / instances;
    dflop_ordered += above(dflop, ordered) / instances;
    disttrain_given += above(disttrain, given) / instances;
    disttrain_ordered += above(disttrain, ordered) / instances;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(ballast::disttrain_makespan(units, microbatches));
  }
  state.counters["dflop_given"] = dflop_given;
  state.counters["dflop_ordered"] = dflop_ordered;
  state.counters["disttrain_given"] = disttrain_given;
  state.counters["disttrain_ordered"] = disttrain_ordered;
}

[[maybe_unused]] bool const bounds_registered = [] {
  struct named_kind {
    pipeline kind;
    std::string_view name;
  };
  for (auto const& [kind, kind_name] :
       {named_kind{pipeline::chain, "1f1b"}, named_kind{pipeline::transfers, "transfers"},
        named_kind{pipeline::interleaved, "interleaved"}, named_kind{pipeline::gpipe, "gpipe"},
        named_kind{pipeline::encoders, "encoders"}}) {
    for (auto const& [family, family_name] : ballast_test::named_families) {
      std::string const row = std::string(kind_name).append("/").append(family_name);
      auto const add = [&](std::string_view what, auto measure) {
        return benchmark::RegisterBenchmark(
                   std::string("order/").append(what).append("/").append(row).c_str(), measure,
                   kind, family)
            ->ArgNames({"microbatches", "ranks"})
            ->Unit(benchmark::kMicrosecond);
      };
      auto* const rows = add("bound", bound)->Args({64, 8});
      if (kind == pipeline::chain) { rows->Args({64, 16}); }
      add("tightness", tightness)->Args({7, 4});
      if (kind == pipeline::chain || kind == pipeline::transfers) {
        add("formulas", formulas)->Args({64, 8});
      }
    }
  }
  return true;
}();

}  // namespace
